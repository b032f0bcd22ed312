package cluster

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Enter runs this program once more, with the same arguments and more environment, with a network,
// a host name, a tree of mounts and a tree of processes of its own, and returns how it ended. When
// this process ends, however it does, so does that one, with everything that it has started.
func Enter(env ...string) error {
	cmd := inNamespaces(os.Args[1:], env...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}

// inNamespaces is this program in namespaces of its own, below a first process that reaps. The
// thread that starts it must be locked and live on: the kernel ends the child with it.
func inNamespaces(args []string, env ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = append(append(os.Environ(), env...), reaperEnv+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWUTS, Pdeathsig: unix.SIGKILL}
	return cmd
}

// reaperEnv tells a process that it is the first of a tree of processes.
const reaperEnv = "NEPHELE_CLUSTER_REAPER"

// Reap must be called before anything else in the program that calls Enter or Start. In the first
// process of a tree it runs the program as a child, ends as that one does, and meanwhile takes in
// what is orphaned, such as the shims of containerd: the kernel ends a tree only when somebody has
// waited for each of its processes, and no one else waits for orphans.
func Reap() error {
	if os.Getenv(reaperEnv) == "" {
		return nil
	}
	if err := os.Unsetenv(reaperEnv); err != nil {
		return err
	}
	child, err := os.StartProcess("/proc/self/exe", os.Args, &os.ProcAttr{Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}})
	if err != nil {
		return err
	}
	for {
		var status unix.WaitStatus
		switch pid, err := unix.Wait4(-1, &status, 0, nil); {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return fmt.Errorf("wait: %w", err)
		case pid == child.Pid && status.Exited():
			os.Exit(status.ExitStatus())
		case pid == child.Pid:
			return fmt.Errorf("ended by a signal: %v", status.Signal())
		}
	}
}

// Settle gives a process that Enter has started its own mounts and /proc.
func Settle() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keep mounts to ourselves (is this root?): %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	return nil
}

// furnish gives this process alone the directories that programs of a Node write to, in memory.
func furnish() error {
	if err := Settle(); err != nil {
		return err
	}
	for _, dir := range []string{"/run", "/var/lib", "/var/log"} {
		if err := unix.Mount("none", dir, "tmpfs", 0, "mode=755"); err != nil {
			return fmt.Errorf("mount %s: %w", dir, err)
		}
	}
	return errors.Join(os.MkdirAll("/run/netns", 0o755), os.MkdirAll("/var/lib/kubelet", 0o755))
}

// sysctl sets what NAME is in the network of this process.
func sysctl(name, value string) error {
	return os.WriteFile(filepath.Join("/proc/sys", strings.ReplaceAll(name, ".", "/")), []byte(value), 0)
}

// program is a running program that is to run as long as the cluster.
type program struct {
	name string
	cmd  *exec.Cmd
	done chan struct{}
	err  error
}

// run starts a program, whose output goes to dir/NAME.log.
func run(dir, name string, env []string, path string, args ...string) (*program, error) {
	log, err := os.OpenFile(filepath.Join(dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	p := &program{name: name, cmd: exec.Command(path, args...), done: make(chan struct{})}
	p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = env, log, log
	if err := errors.Join(p.cmd.Start(), log.Close()); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		defer close(p.done)
		p.err = p.cmd.Wait()
	}()
	return p, nil
}

// failed says that the program has ended, which it must not; nil while it runs.
func (p *program) failed() error {
	select {
	case <-p.done:
		return fmt.Errorf("%s has ended: %w", p.name, p.err)
	default:
		return nil
	}
}
