package main

import (
	"bufio"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// asNephele, when set in the environment, makes the test binary the program.
const asNephele = "NEPHELE_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asNephele) != "" {
		if dir := os.Getenv(profileDir); dir != "" {
			os.Exit(profiled(dir, run))
		}
		os.Exit(run())
	}
	os.Exit(m.Run())
}

func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, args...)
	cmd.Env = append(os.Environ(), asNephele+"=1")
	return cmd
}

func TestUpUntilInterrupted(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	cmd := program(t, "up", "--data-dir", dir, "--listen", "127.0.0.1:0")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// A test that hangs says where, with the limit of go test; a process must not be left behind by
	// it.
	defer time.AfterFunc(2*time.Minute, func() { _ = cmd.Process.Kill() }).Stop()

	lines := bufio.NewReader(out)
	var text strings.Builder
	for !strings.Contains(text.String(), "Ctrl-C stops") {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatalf("output ended with %v after %q; standard error: %s", err, text.String(), stderr.String())
		}
		text.WriteString(line)
	}
	for _, want := range []string{"Nephele is ready", "https://127.0.0.1:", "export KUBECONFIG=" + filepath.Join(dir, "kubeconfig")} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("output %q does not say %q", text.String(), want)
		}
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(lines)
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("after SIGINT: %v", err)
	}
	if !strings.Contains(string(rest), "Stopping") {
		t.Errorf("output after SIGINT: %q", rest)
	}
	// Nothing but our own progress may reach the terminal.
	for line := range strings.Lines(stderr.String()) {
		if !strings.HasPrefix(line, "starting ") && !strings.HasPrefix(line, "stopping ") && !strings.HasPrefix(line, "installing ") {
			t.Errorf("standard error says %q", line)
		}
	}
}

func TestBadInputExitsWithTwo(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		args []string
		want string
	}{
		"port in use":  {[]string{"up", "--data-dir", t.TempDir(), "--listen", busy.Addr().String()}, "is in use"},
		"not writable": {[]string{"up", "--data-dir", file}, "cannot write"},
		"unknown flag": {[]string{"up", "--dir", file}, "unknown flag"},
		"no endpoint":  {[]string{"up", "--data-dir", t.TempDir(), "--allowed-endpoints", "http://ec2.example"}, "want HOST"},
		"argument":     {[]string{"up", "please"}, "please"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			out, err := program(t, test.args...).CombinedOutput()
			if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 2 {
				t.Errorf("end: %v, want exit status 2", err)
			}
			if !strings.Contains(string(out), test.want) || strings.Count(string(out), "\n") > 2 {
				t.Errorf("output %q, want one line that says %q", out, test.want)
			}
		})
	}
}

// TestUpCallsNothingHere: without a flag no account of "up" may name an endpoint on its machine.
func TestUpCallsNothingHere(t *testing.T) {
	f := upCommand().Flags().Lookup("allowed-endpoints")
	if f == nil || f.DefValue != "[]" {
		t.Errorf("--allowed-endpoints is %+v", f)
	}
}
