package demo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"

	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/nephele-io/nephele/api/generated/crd"
	"github.com/nephele-io/nephele/internal/cli"
	"github.com/nephele-io/nephele/internal/cli/plancmd"
	"github.com/nephele-io/nephele/internal/cli/terminal"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/controller"
	"github.com/nephele-io/nephele/internal/controller/clouds"
	"github.com/nephele-io/nephele/internal/platform/progress"
	"github.com/nephele-io/nephele/internal/tier"
	"github.com/nephele-io/nephele/standalone/internal/up"
)

// asProgram, when set in the environment, makes the test binary the command "demo": a process can
// hold one control plane only, and signals and exit codes are part of the contract. Its value says
// which parts the command is made of.
const (
	asProgram = "NEPHELE_TEST_DEMO"
	complete  = "complete"
	emptyPlan = "empty plan"
)

func TestMain(m *testing.M) {
	if variant := os.Getenv(asProgram); variant != "" {
		os.Exit(program(variant))
	}
	os.Exit(m.Run())
}

// program is what cmd/nephele makes of the command, with parts of which one may be exchanged for a
// bad one.
func program(variant string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	pflag.CommandLine = pflag.NewFlagSet(os.Args[0], pflag.ContinueOnError)
	parts := Parts{
		CRDs: crd.FS(), No: terminal.ErrNo,
		Controller: func(ctx context.Context, cfg *rest.Config, home up.Home) error {
			return controller.Run(ctx, cfg, controller.Options{Log: terminal.NewLogger(home.Log, false), Ready: home.Ready, Access: clouds.LocalAccess()})
		},
		Preview: plancmd.Preview,
	}
	if variant == emptyPlan {
		parts.Preview = func(context.Context, *rest.Config, types.NamespacedName, []string) (*plan.Result, error) {
			return &plan.Result{}, nil
		}
	}
	return cli.Main(ctx, os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, NewCommand(parts))
}

// process is a running command.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines *bufio.Reader
	text  strings.Builder
	// tmp is where it makes its temporary files.
	tmp string
	// errors is standard error, to be read after the end.
	errors strings.Builder
}

func start(t *testing.T, variant string, args ...string) *process {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, tmp: t.TempDir(), cmd: exec.Command(exe, append([]string{"demo"}, args...)...)}
	p.cmd.Env = append(os.Environ(), asProgram+"="+variant, "TMPDIR="+p.tmp)
	p.cmd.Stderr = &p.errors
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.lines = bufio.NewReader(out)
	// A process that hangs must not be left behind, and the test must say where it did.
	hung := time.AfterFunc(4*time.Minute, func() { _ = p.cmd.Process.Kill() })
	t.Cleanup(func() {
		hung.Stop()
		if t.Failed() {
			t.Logf("standard output:\n%s\nstandard error:\n%s", p.text.String(), p.errors.String())
		}
	})
	return p
}

// until reads the output up to a line that contains the text.
func (p *process) until(text string) {
	p.t.Helper()
	for {
		line, err := p.lines.ReadString('\n')
		p.text.WriteString(line)
		if err != nil {
			p.t.Fatalf("the output ended without %q", text)
		}
		if strings.Contains(line, text) {
			return
		}
	}
}

// end reads the rest and returns the exit code.
func (p *process) end() int {
	p.t.Helper()
	rest, err := io.ReadAll(p.lines)
	p.text.Write(rest)
	if err != nil {
		p.t.Fatal(err)
	}
	err = p.cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		p.t.Fatal(err)
	}
	return p.cmd.ProcessState.ExitCode()
}

func (p *process) interrupt() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		p.t.Fatal(err)
	}
}

// readable checks that the output is fit for a log.
func (p *process) readable() {
	p.t.Helper()
	for line := range strings.Lines(p.text.String()) {
		line = strings.TrimSuffix(line, "\n")
		if len(line) > 100 && !strings.Contains(line, os.TempDir()) {
			p.t.Errorf("a line of %d columns: %s", len(line), line)
		}
		if strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) {
			p.t.Errorf("a line with characters that do not print: %q", line)
		}
	}
}

func (p *process) says(texts ...string) {
	p.t.Helper()
	for _, text := range texts {
		if !strings.Contains(p.text.String(), text) {
			p.t.Errorf("the output does not say %q", text)
		}
	}
}

// TestStory tells the story once and leaves nothing behind.
func TestStory(t *testing.T) {
	t.Parallel()
	p := start(t, complete, "--once")
	if code := p.end(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	p.readable()
	p.says("All 18 checks held.", "which is removed at the end", "Plan: ", "In force after", "the account is exactly as it was found")
	left, err := os.ReadDir(p.tmp)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestGoingOn tells the story on a data directory that is kept, with one check that does not hold;
// starts again and does what the command invites to; and starts over, which is interrupted at each
// commit: TestStory tells the rest.
func TestGoingOn(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	p := start(t, emptyPlan, "--data-dir", dir)
	p.until("Ctrl-C stops")
	p.says("FAILED", "there is nothing in the plan", "1 of 13 checks did NOT hold")
	p.interrupt()
	if code := p.end(); code != 1 {
		t.Errorf("exit code %d, want 1 for a check that did not hold", code)
	}

	p = start(t, complete, "--data-dir", dir)
	p.until("Ctrl-C stops")
	p.says("Going on", "border_01         s  h  t  p       -             .  .  .  p    s  h  t  p    s  h  t  p", "Pod reports       d  .  .    d  .  .")
	cfg, err := clientcmd.BuildConfigFromFlags("", filepath.Join(dir, "kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := newCluster(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.remove(t.Context(), filepath.Join(dir, "story", fileSwitches)); err != nil {
		t.Fatal(err)
	}
	p.until("border_01 -> border_02: now ssh tcp/22, https tcp/443, telemetry tcp/9910")
	edit(t, filepath.Join(dir, "story", fileSwitches), "port: 443", "port: 8443")
	if err := c.apply(t.Context(), filepath.Join(dir, "story", fileSwitches)); err != nil {
		t.Fatal(err)
	}
	p.until("CVP Server Test -> border_01: no more https tcp/443, ping")
	p.interrupt()
	if code := p.end(); code != 0 {
		t.Errorf("exit code %d after an interrupt, want 0", code)
	}

	p = start(t, complete, "--once", "--data-dir", dir)
	if !tier.Long() {
		p.isInterrupted()
		p.says("Starting over")
		return
	}
	if code := p.end(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	p.says("Starting over", "All 18 checks held.")
}

func TestBadInput(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		args []string
		want string
	}{
		"timeout":        {[]string{"--timeout", "0s"}, "--timeout is 0s"},
		"data directory": {[]string{"--data-dir", file}, "cannot write"},
		"address":        {[]string{"--listen", "nowhere"}, "HOST:PORT"},
		"argument":       {[]string{"please"}, "please"},
		"clusters":       {[]string{"--clusters", "--data-dir", "x"}, "none of the others can be"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			p := start(t, complete, test.args...)
			if code := p.end(); code != 2 || !strings.Contains(p.errors.String(), test.want) {
				t.Errorf("exit code %d, want 2 and a message that says %q", code, test.want)
			}
		})
	}
}

// TestWaitInVain says what was waited for and what was seen last, and tells that from an interrupt
// and from an error.
func TestWaitInVain(t *testing.T) {
	steps := progress.New(io.Discard, false)
	defer steps.Close()
	s := &story{teller: &teller{out: io.Discard}, steps: steps, limit: 200 * time.Millisecond}
	err := s.await(t.Context(), "pigs fly", func(ctx context.Context) (string, error) {
		if _, ok := ctx.Deadline(); !ok {
			t.Error("the question has no deadline")
		}
		return "they walk", nil
	})
	var late *timeout
	if !errors.As(err, &late) || err.Error() != "gave up after 200ms of waiting until pigs fly; last seen: they walk" {
		t.Errorf("error %v", err)
	}
	s.limit = time.Minute // what follows does not end by it
	broken := errors.New("broken")
	if err := s.await(t.Context(), "", func(context.Context) (string, error) { return "", broken }); !errors.Is(err, broken) {
		t.Errorf("error %v, want the one of the question", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err = s.await(ctx, "", func(context.Context) (string, error) { cancel(); return "not yet", nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that of the interrupt", err)
	}
	asked := 0
	err = s.await(t.Context(), "", func(context.Context) (string, error) {
		if asked++; asked < 3 {
			return "", apierrors.NewConflict(schema.GroupResource{}, "x", broken)
		}
		return "", nil
	})
	if err != nil || asked != 3 {
		t.Errorf("error %v after %d questions: a conflict goes away", err, asked)
	}
}

// TestInterruptedStory is over at once, and has not held.
func TestInterruptedStory(t *testing.T) {
	t.Parallel()
	tier.OnlyLong(t, "TestGoingOn is interrupted at the same place")
	start(t, complete, "--once").isInterrupted()
}

// isInterrupted ends a story in its midst.
func (p *process) isInterrupted() {
	p.t.Helper()
	p.until("Import the VMs")
	p.interrupt()
	began := time.Now()
	if code := p.end(); code != 1 {
		p.t.Errorf("exit code %d, want 1", code)
	}
	p.says("Interrupted before the end")
	if took := time.Since(began); took > time.Minute {
		p.t.Errorf("it took %s to end", took)
	}
}

func edit(t *testing.T, path, former, now string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), former) {
		t.Fatalf("%s does not say %q", path, former)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(text), former, now, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
}

func accountEndpoint(t *testing.T, dir string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, fileAccount))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), "endpoint: "); ok {
			return value
		}
	}
	t.Fatal(fmt.Errorf("%s names no endpoint", fileAccount))
	return ""
}
