package demo

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// readyLine is in what "nephele up" prints when it is ready.
const readyLine = "Nephele is ready"

// plane is a "nephele up" in a process of its own: the libraries of Kubernetes allow one control
// plane in each.
type plane struct {
	// name is what the story calls it; program what runs, with flags besides those that all have.
	name, program string
	flags         []string
	// dir is its data directory, log the file with what it prints.
	dir, log string
	// broken is called with why, if it ends though no one has ended it.
	broken func(error)

	cmd           *exec.Cmd
	wanted        atomic.Bool
	ready, exited chan struct{}
	cluster       cluster
	kube          kubernetes.Interface
}

func (p *plane) kubeconfig() string { return filepath.Join(p.dir, "kubeconfig") }

// start starts it, and does not wait.
func (p *plane) start() error {
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	args := append([]string{"up", "--data-dir", p.dir, "--listen", "127.0.0.1:0", "--console", "off"}, p.flags...)
	p.cmd = exec.Command(p.program, args...)
	p.cmd.Stderr = log
	endWithParent(p.cmd)
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		return errors.Join(fmt.Errorf("start %s: %w", p.name, err), log.Close())
	}
	p.ready, p.exited = make(chan struct{}), make(chan struct{})
	p.wanted.Store(true)
	go p.attend(p.cmd, out, log, p.ready, p.exited)
	return nil
}

// attend keeps what a process prints, and reports its end.
func (p *plane) attend(cmd *exec.Cmd, out io.Reader, log io.WriteCloser, ready, exited chan struct{}) {
	told := false
	for lines := bufio.NewReader(out); ; {
		line, err := lines.ReadString('\n')
		_, _ = io.WriteString(log, line) // the story does not end for want of a log
		if !told && strings.Contains(line, readyLine) {
			told = true
			close(ready)
		}
		if err != nil {
			break
		}
	}
	err := cmd.Wait()
	_ = log.Close()
	wanted := p.wanted.Load() // when others know of the end they may start it again
	close(exited)
	if wanted {
		p.broken(fmt.Errorf("%s has ended by itself (%w); what it said is in %s:\n%s", p.name, orDone(err), p.log, tail(p.log)))
	}
}

func orDone(err error) error {
	if err == nil {
		return errors.New("with exit code 0")
	}
	return err
}

// tail is the end of a file.
func tail(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-5):], "\n")
}

// connect makes the clients, when it is ready.
func (p *plane) connect() error {
	cfg, err := clientcmd.BuildConfigFromFlags("", p.kubeconfig())
	if err != nil {
		return err
	}
	if p.cluster, err = newCluster(cfg); err != nil {
		return err
	}
	p.kube, err = kubernetes.NewForConfig(cfg)
	return err
}

// kill ends the process at once, as a power cut does. That it does not run is fine.
func (p *plane) kill() error {
	if p.exited == nil {
		return nil
	}
	p.wanted.Store(false)
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.exited
	return nil
}

// nephele runs another command of the same program against it, and returns what it prints.
func (p *plane) nephele(ctx context.Context, limit time.Duration, args ...string) (code int, stdout, stderr string, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.program, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+p.kubeconfig())
	cmd.WaitDelay = time.Second
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Exited() {
		err = nil
	}
	if err != nil {
		return 0, "", "", fmt.Errorf("nephele %s: %w", args[0], err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errOut.String(), nil
}

// fixedAddress is an address of this machine for a process that is started more than once. Its port
// is below those that systems give to outgoing connections, so that it is still free then.
func fixedAddress() (string, error) {
	const first, ports = 20000, 12000
	for i := range 100 {
		at := fmt.Sprintf("127.0.0.1:%d", first+(os.Getpid()*61+i)%ports)
		if l, err := net.Listen("tcp", at); err == nil {
			return at, l.Close()
		}
	}
	return "", errors.New("no port from 20000 to 31999 is free on 127.0.0.1")
}
