import asyncio, time
class Odd(BaseException): pass
from pytest_agentv import Evaluator, Score
async def judge(name):
    if name == 'judge-interrupt': raise KeyboardInterrupt('mine')
    if name == 'judge-exit': raise SystemExit(3)
    if name == 'judge-generator': raise GeneratorExit('mine')
    if name == 'judge-cancelled': raise asyncio.CancelledError('mine')
    if name == 'judge-odd': raise Odd('mine')
class Judge(Evaluator):
  kind = 'odd'
  async def evaluate(self, context):
    await judge(context.case.eval_id)
    return Score(1.0)
def pytest_agentv_evaluators(): return [Judge]
def pytest_agentv_response(case, response):
    if case.eval_id == 'response-interrupt': raise KeyboardInterrupt('mine')
    if case.eval_id == 'response-exit': raise SystemExit(3)
    if case.eval_id == 'response-generator': raise GeneratorExit('mine')
    if case.eval_id == 'response-cancelled': raise asyncio.CancelledError('mine')
    if case.eval_id == 'response-odd': raise Odd('mine')
def pytest_agentv_assert(case, result):
    if case.eval_id == 'assert-interrupt': raise KeyboardInterrupt('mine')
    if case.eval_id == 'assert-exit': raise SystemExit(3)
    if case.eval_id == 'assert-generator': raise GeneratorExit('mine')
    if case.eval_id == 'assert-cancelled': raise asyncio.CancelledError('mine')
    if case.eval_id == 'assert-odd': raise Odd('mine')
