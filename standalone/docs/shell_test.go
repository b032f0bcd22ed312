package docs_test

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// shellArgument tells the test binary that it is to become a shell in a network of its own.
const shellArgument = "become-a-shell"

// becomeShell brings the loopback interface of the new network up and runs bash in place of this
// process.
func becomeShell() int {
	if err := loopbackUp(); err != nil {
		fmt.Fprintln(os.Stderr, "loopback:", err)
		return 1
	}
	bash, err := exec.LookPath("bash")
	if err == nil {
		err = syscall.Exec(bash, []string{"bash", "--norc", "--noprofile"}, os.Environ())
	}
	fmt.Fprintln(os.Stderr, "bash:", err)
	return 1
}

// loopbackUp sets the interface lo up, as "ip link set lo up" does.
func loopbackUp() error {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer func() { _ = syscall.Close(fd) }() // nothing was written
	// struct ifreq: the name, then the flags.
	var request [40]byte
	copy(request[:], "lo")
	*(*uint16)(unsafe.Pointer(&request[16])) = syscall.IFF_UP | syscall.IFF_RUNNING
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), syscall.SIOCSIFFLAGS, uintptr(unsafe.Pointer(&request))); errno != 0 {
		return errno
	}
	return nil
}

// shell is one bash that runs the commands of a page.
type shell struct {
	t     *testing.T
	dir   string
	cmd   *exec.Cmd
	stdin io.WriteCloser
	codes chan int
	count int
}

// open starts a shell in a directory that looks like the repository and takes what the commands
// write.
func open(t *testing.T) *shell {
	t.Helper()
	s := &shell{t: t, dir: t.TempDir(), codes: make(chan int)}
	for _, name := range []string{"api", "bin", "config", "docs", "internal", "testdata"} {
		if err := os.Symlink(filepath.Join(root, name), filepath.Join(s.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.start(true); err != nil {
		// Without the right to make networks the ports of the machine are taken.
		t.Logf("no network of its own: %v", err)
		if err := s.start(false); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(s.close)
	s.must(fmt.Sprintf("make() { command make -n -C %q \"$@\" > /dev/null; }", root))
	return s
}

func (s *shell) start(network bool) error {
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	s.cmd = exec.Command("bash", "--norc", "--noprofile")
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if network {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		s.cmd = exec.Command(self, shellArgument)
		s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Cloneflags: syscall.CLONE_NEWNET}
		if os.Geteuid() != 0 {
			s.cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
			s.cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
			s.cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
			s.cmd.SysProcAttr.AmbientCaps = []uintptr{12} // CAP_NET_ADMIN, for loopbackUp
		}
	}
	s.cmd.Dir, s.cmd.ExtraFiles = s.dir, []*os.File{write}
	s.cmd.Stdout, s.cmd.Stderr = os.Stderr, os.Stderr
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); name != "KUBECONFIG" && name != "HOME" && name != "PATH" && !strings.HasPrefix(name, "AWS_") && !strings.HasPrefix(name, "NEPHELE_") {
			s.cmd.Env = append(s.cmd.Env, v)
		}
	}
	s.cmd.Env = append(s.cmd.Env, "HOME="+s.dir, "PATH="+filepath.Join(root, "bin")+":"+os.Getenv("PATH"))
	if s.stdin, err = s.cmd.StdinPipe(); err != nil {
		return err
	}
	if err := s.cmd.Start(); err != nil {
		return err
	}
	if err := write.Close(); err != nil {
		return err
	}
	go func() {
		defer close(s.codes)
		for lines := bufio.NewScanner(read); lines.Scan(); {
			code, err := strconv.Atoi(lines.Text())
			if err != nil {
				return
			}
			s.codes <- code
		}
	}()
	return nil
}

// close ends the shell with all that it has started.
func (s *shell) close() {
	_ = s.stdin.Close() // the shell may have ended by itself
	_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGTERM)
	for range s.codes {
	}
	_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL)
	_ = s.cmd.Wait() // it was killed
	for until := time.Now().Add(10 * time.Second); syscall.Kill(-s.cmd.Process.Pid, 0) == nil && time.Now().Before(until); {
		time.Sleep(20 * time.Millisecond) // what it has started still writes into the directory
	}
}

// patience is how long one command may take where the machine is busy with other tests.
const patience = 5 * time.Minute

// run runs a command in the shell itself, so that it may set variables and start jobs, and returns
// what it has printed so far.
func (s *shell) run(text string) (string, int) {
	s.t.Helper()
	s.count++
	out := filepath.Join(s.dir, fmt.Sprintf(".output-%d", s.count))
	encoded := base64.StdEncoding.EncodeToString([]byte(text))
	if _, err := fmt.Fprintf(s.stdin, "eval \"$(base64 -d <<<%s)\" >%s 2>&1 3>&- </dev/null; echo $? >&3\n", encoded, out); err != nil {
		s.t.Fatalf("%s: the shell has ended: %v", text, err)
	}
	select {
	case code, ok := <-s.codes:
		if !ok {
			s.t.Fatalf("%s: the shell has ended", text)
		}
		output, err := os.ReadFile(out)
		if err != nil {
			s.t.Fatal(err)
		}
		return string(output), code
	case <-time.After(patience):
		output, _ := os.ReadFile(out) // what there is
		s.t.Fatalf("%s: not done after %s:\n%s", text, patience, output)
	}
	return "", 0
}

func (s *shell) must(text string) {
	s.t.Helper()
	if out, code := s.run(text); code != 0 {
		s.t.Fatalf("%s: exit code %d\n%s", text, code, out)
	}
}
