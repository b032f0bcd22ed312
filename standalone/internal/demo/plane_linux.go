package demo

import (
	"os/exec"
	"syscall"
)

// endWithParent lets a process end when this one is killed.
func endWithParent(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
