package e2e

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	apiruntime "k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1alpha1"
	"github.com/nephele-io/nephele/api/antrea/v1alpha2"
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/tier"
)

// binary is the standalone build under test, made once by TestMain.
var binary string

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	// hack/build.sh sets the linker flags without which the API server reports a version that
	// clients cannot parse.
	build := exec.Command("../../hack/build.sh", "standalone", "./cmd/nephele", "bin/nephele")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "building the binary under test:", err)
		return 1
	}
	var err error
	if binary, err = filepath.Abs("../../bin/nephele"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := tier.AtATime(atATime); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	endPool()
	if *printCosts {
		tellCosts()
	}
	return code
}

// testScheme knows every kind that the tests use.
func testScheme(t *testing.T) *apiruntime.Scheme {
	t.Helper()
	s := apiruntime.NewScheme()
	for _, add := range []func(*apiruntime.Scheme) error{clientgoscheme.AddToScheme, cloudv1.AddToScheme, v1beta1.AddToScheme, v1alpha1.AddToScheme, v1alpha2.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// process is a running "nephele up".
type process struct {
	cmd    *exec.Cmd
	output *safeBuffer
	exited chan struct{}
	err    error
}

// safeBuffer collects the output of a process.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// cluster is one data directory, with a process on it most of the time.
type cluster struct {
	t      *testing.T
	dir    string
	listen string
	// args are given to the process in addition.
	args []string
	// program is what runs; empty for the binary under test.
	program string
	// env is what the process has in its environment besides what the tests have.
	env     map[string]string
	process *process
	client  client.Client
	// pooled is set if other tests use it, too.
	pooled *pooled
}

const (
	// heartbeat is for how long an instance waits after one that was killed.
	heartbeat = 2 * time.Second
	// claimPause is for how long it waits after it has claimed a network: nobody else claims it.
	claimPause = 100 * time.Millisecond
	// atATime is how many tests run at the same time. Most of the time they wait; each has a
	// control plane, which takes 350 MB.
	atATime = 4
)

// freeAddress is an address for a process that is started with it. Its port is below those that the
// kernel gives to outgoing connections, so that none of them takes it before the process does; and
// every call tries another one.
func freeAddress(t *testing.T) string {
	t.Helper()
	const first, ports = 20000, 12000
	for range ports {
		at := fmt.Sprintf("127.0.0.1:%d", first+(os.Getpid()*61+int(triedPorts.Add(1)))%ports)
		if l, err := net.Listen("tcp", at); err == nil {
			must(t, l.Close())
			return at
		}
	}
	t.Fatal("no port is free")
	return ""
}

// triedPorts counts the ports that this process has tried.
var triedPorts atomic.Int64

// newCluster starts a process on a new data directory and waits until it is ready. The process ends
// with the test.
func newCluster(t *testing.T, args ...string) *cluster {
	t.Helper()
	return newClusterOf(t, binary, args...)
}

// newClusterOf is newCluster with another program.
func newClusterOf(t *testing.T, program string, args ...string) *cluster {
	t.Helper()
	return startCluster(&cluster{t: t, args: args, program: program})
}

// startCluster starts a cluster whose test, program, environment and arguments are set.
func startCluster(c *cluster) *cluster {
	t := c.t
	t.Helper()
	c.dir, c.listen = t.TempDir(), freeAddress(t)
	t.Cleanup(func() {
		if t.Failed() {
			c.printLogs()
		}
		c.stop()
	})
	c.start()
	c.waitReady()
	return c
}

func (c *cluster) start() {
	c.t.Helper()
	out := &safeBuffer{}
	args := []string{"up", "--data-dir", c.dir, "--listen", c.listen, "--instance-heartbeat", heartbeat.String()}
	if !slices.ContainsFunc(c.args, func(a string) bool { return strings.HasPrefix(a, "--allowed-endpoints") }) {
		args = append(args, "--allowed-endpoints=loopback") // the clouds are simulated here
	}
	if program := cmp.Or(c.program, binary); program == binary { // former releases do not know it
		args = append(args, "--instance-claim-pause", claimPause.String(), "--propagation", "0s")
	}
	cmd := exec.Command(cmp.Or(c.program, binary), append(args, c.args...)...)
	cmd.Env = os.Environ()
	for name, value := range c.env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	p := &process{cmd: cmd, output: out, exited: make(chan struct{})}
	payer := c.t.Name()
	if c.pooled != nil {
		payer = "clusters of the pool"
	}
	go func() {
		p.err = cmd.Wait()
		spent(payer, cmd.ProcessState, true)
		close(p.exited)
	}()
	c.process = p
}

// waitReady waits until the process says that it is ready, and makes a client from the kubeconfig
// it wrote.
func (c *cluster) waitReady() {
	c.t.Helper()
	deadline := time.After(waitLimit)
	for !strings.Contains(c.process.output.String(), "Nephele is ready") {
		select {
		case <-c.process.exited:
			c.t.Fatalf("nephele up ended before it was ready: %v\n%s", c.process.err, c.process.output)
		case <-deadline:
			c.t.Fatalf("nephele up is not ready after %s:\n%s", waitLimit, c.process.output)
		case <-time.After(50 * time.Millisecond):
		}
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", filepath.Join(c.dir, "kubeconfig"))
	if err != nil {
		c.t.Fatal(err)
	}
	cfg.QPS, cfg.Burst = 200, 400
	c.client = newClient(c.t, cfg)
}

func newClient(t *testing.T, cfg *rest.Config) client.Client {
	t.Helper()
	cl, err := client.New(cfg, client.Options{Scheme: testScheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	return cl
}

// kill ends the process as a power cut would.
func (c *cluster) kill() {
	c.t.Helper()
	if err := c.process.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		c.t.Fatal(err)
	}
	<-c.process.exited
}

// stop ends the process in order; one that does not end is killed and reported.
func (c *cluster) stop() {
	if c.process == nil {
		return // the test has failed before it was started
	}
	select {
	case <-c.process.exited:
		return
	default:
	}
	if err := c.process.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		c.t.Error(err)
	}
	select {
	case <-c.process.exited:
		if c.process.err != nil {
			c.t.Errorf("nephele up did not end well after SIGTERM: %v\n%s", c.process.err, c.process.output)
		}
	case <-time.After(waitLimit):
		c.kill()
		c.t.Errorf("nephele up did not end within %s after SIGTERM", waitLimit)
	}
}

// printLogs shows the end of the process's output and log files in the log of a failed test.
func (c *cluster) printLogs() {
	if c.process == nil {
		return // the test has failed before it was started
	}
	c.t.Logf("output of nephele up:\n%s", tail(c.process.output.String(), 4000))
	files, _ := filepath.Glob(filepath.Join(c.dir, "logs", "*"))
	for _, f := range files {
		if raw, err := os.ReadFile(f); err == nil && filepath.Base(f) == "controller.log" {
			c.t.Logf("%s:\n%s", filepath.Base(f), tail(string(raw), 12000))
		}
	}
}

func tail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return "..." + s[len(s)-n:]
}

// waitLimit bounds every wait for something that must come. It only says how long a broken build
// hangs: a busy machine may be ten times slower than a quiet one.
const waitLimit = 10 * time.Minute

// eventually waits until ok holds, and fails the test with what why says last.
func eventually(t *testing.T, what string, ok func(ctx context.Context) (done bool, why string)) {
	t.Helper()
	eventuallyEvery(t, 100*time.Millisecond, what, ok)
}

// eventuallyTold is eventually for what a command has to tell: a process that starts takes a
// quarter of a second of a processor, which what is waited for could use.
func eventuallyTold(t *testing.T, what string, ok func(ctx context.Context) (done bool, why string)) {
	t.Helper()
	eventuallyEvery(t, time.Second, what, ok)
}

// eventuallyEvery is eventually with the time between two looks.
func eventuallyEvery(t *testing.T, pause time.Duration, what string, ok func(ctx context.Context) (done bool, why string)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	for {
		done, why := ok(ctx)
		if done {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: not after %s: %s", what, waitLimit, why)
		case <-time.After(pause):
		}
	}
}

// run runs the binary to its end and returns its exit code and what it printed.
func run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return runIn(t, waitLimit, nil, args...)
}

// runIn is run with more in the environment.
func runIn(t *testing.T, limit time.Duration, env []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Env = append(os.Environ(), env...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = io.Writer(&out), io.Writer(&errOut)
	err := cmd.Run()
	spent(t.Name(), cmd.ProcessState, false)
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%v: %v", args, err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errOut.String()
}
