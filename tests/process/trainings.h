// Small trainings that the tests start, kill and compare, in one program, since most of what it
// takes to compile one is LibTorch's: trainings NAME FLAG... Each is a file, named like it.
#pragma once

int engine_worker(int argc, char** argv);
int stream_net(int argc, char** argv);
int virtual_net(int argc, char** argv);
int wrong_hook(int argc, char** argv);
