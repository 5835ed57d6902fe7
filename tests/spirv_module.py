"""A SPIR-V module as spirv-dis shows it, for the tests that look into modules."""
import collections
import re
import subprocess
from pathlib import Path

Instruction = collections.namedtuple('Instruction', 'result opcode operands')


def run(*command):
    return subprocess.run(command, capture_output=True, text=True)


class Module:
    def __init__(self, path):
        self.path = Path(path)
        shown = run('spirv-dis', '--no-color', '--no-header', '--raw-id', str(path))
        if shown.returncode != 0:
            raise ValueError(f'spirv-dis: {shown.stderr.strip()}')
        self.instructions = []
        for line in shown.stdout.splitlines():
            line = re.sub(r';[^"]*$', '', line).strip()
            match = re.fullmatch(r'(?:(%\w+) = )?(Op\w+)\s*(.*)', line)
            if match:
                operands = re.findall(r'"(?:[^"\\]|\\.)*"|\S+', match.group(3))
                self.instructions.append(Instruction(match.group(1), match.group(2), operands))
        self.by_result = {i.result: i for i in self.instructions if i.result}
        addressing, memory = self.operands('OpMemoryModel')[0]
        self.api = 'opencl' if memory == 'OpenCL' else 'vulkan'
        self.is_wide = addressing == 'Physical64'

    def operands(self, opcode):
        return [i.operands for i in self.instructions if i.opcode == opcode]

    def decoration(self, target, name):
        """The operands of a decoration of an id, or None."""
        for operands in self.operands('OpDecorate'):
            if operands[:2] == [target, name]:
                return operands[2:]
        return None

    def size(self, type_id):
        """Bytes of a type; booleans count as words."""
        _, opcode, operands = self.by_result[type_id]
        if opcode == 'OpTypeInt':
            return int(operands[0]) // 8
        if opcode == 'OpTypeBool':
            return 4
        if opcode == 'OpTypeVector':
            return self.size(operands[0]) * int(operands[1])
        if opcode == 'OpTypeArray':
            return self.size(operands[0]) * int(self.by_result[operands[1]].operands[1])
        if opcode == 'OpTypeStruct':
            return sum(self.size(member) for member in operands)
        raise ValueError(f'{opcode} where a size is needed')

    def variables(self, storage):
        """(id, type pointed to) of each variable of a storage class."""
        for result, opcode, operands in self.instructions:
            if opcode == 'OpVariable' and operands[1] == storage:
                yield result, self.by_result[operands[0]].operands[1]
