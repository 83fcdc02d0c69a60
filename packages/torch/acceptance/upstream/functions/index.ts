/** @file All that PyTorch's test modules have and this rank has to have, too. */
import './autograd.ts';
import './modules.ts';
import './optimizer.ts';
import './rpc-calling.ts';
import './rpc-plain.ts';
