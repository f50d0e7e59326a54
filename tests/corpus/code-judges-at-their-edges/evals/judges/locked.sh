#!/bin/bash
echo '{"score": 1}'
