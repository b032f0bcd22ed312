package controlplane

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/nephele-io/nephele/internal/platform/certs"
	"github.com/nephele-io/nephele/internal/seed"
	"github.com/nephele-io/nephele/internal/tier"
)

func TestDataOutlivesARestart(t *testing.T) {
	ns := newNamespace(t, "restart")
	if _, err := clientset(t).CoreV1().ConfigMaps(ns).Create(t.Context(), configMap("kept"), create); err != nil {
		t.Fatal(err)
	}
	custom := widgetClient(t, ns)
	if _, err := custom.Create(t.Context(), widget("kept", 3), create); err != nil {
		t.Fatal(err)
	}
	if err := stopShared(); err != nil {
		t.Fatal(err)
	}

	// One that is stopped while it comes up must end cleanly too, and harm nothing.
	cp, err := Start(t.Context(), Options{DataDir: shared.dir, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	if err := cp.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := cp.Err(); !errors.Is(err, errStopped) {
		t.Errorf("Err() after Stop = %v", err)
	}
	if err := cp.Stop(t.Context()); err != nil {
		t.Errorf("second Stop: %v", err)
	}

	if _, err := clientset(t).CoreV1().ConfigMaps(ns).Get(t.Context(), "kept", get); err != nil {
		t.Error(err)
	}
	if _, err := widgetClient(t, ns).Get(t.Context(), "kept", get); err != nil {
		t.Error(err)
	}
}

func TestStopDoesNotWaitForWatchers(t *testing.T) {
	watcher, err := clientset(t).CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()
	// An API server that waits for its watchers gives them a minute.
	begin := time.Now()
	if err := stopShared(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took > 50*time.Second {
		t.Errorf("Stop took %v with an open watch", took)
	}
}

// TestBadInput checks that what a user can get wrong is reported at once, with the flag, the value
// and a way out.
func TestBadInput(t *testing.T) {
	server(t)
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	newer := t.TempDir()
	if err := os.WriteFile(filepath.Join(newer, "format"), []byte("7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const free = "127.0.0.1:0"
	tests := map[string]struct {
		dir, listen string
		want        []string
	}{
		"newer version":      {newer, free, []string{"--data-dir " + newer, "newer version of nephele", `"7"`, "run the newer version"}},
		"port in use":        {t.TempDir(), busy.Addr().String(), []string{"--listen " + busy.Addr().String(), "is in use", "choose another port"}},
		"no port":            {filepath.Join(t.TempDir(), "untouched"), "127.0.0.1", []string{"--listen 127.0.0.1", "HOST:PORT"}},
		"port out of range":  {t.TempDir(), "127.0.0.1:65536", []string{"--listen", `"65536"`, "HOST:PORT"}},
		"foreign address":    {t.TempDir(), "192.0.2.1:0", []string{"--listen 192.0.2.1:0", "no address 192.0.2.1"}},
		"no directory":       {"", free, []string{"--data-dir", "name a directory"}},
		"file as directory":  {file, free, []string{"--data-dir " + file, "cannot write", "not a directory"}},
		"below a file":       {filepath.Join(file, "d"), free, []string{"--data-dir " + file, "not a directory"}},
		"no place for files": {"/proc/nephele", free, []string{"--data-dir /proc/nephele", "cannot write", "choose a directory"}},
		"in use": {shared.dir, free, []string{
			"--data-dir " + shared.dir, "another nephele process (pid " + strconv.Itoa(os.Getpid()) + ")", "stop that process"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := Start(t.Context(), Options{DataDir: test.dir, Listen: test.listen})
			var input *InputError
			if !errors.As(err, &input) {
				t.Fatalf("error %v, want an InputError", err)
			}
			if _, err := os.Stat(test.dir); filepath.Base(test.dir) == "untouched" && !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the data directory was touched before the flags were understood (error %v)", err)
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not say %q", err, want)
				}
			}
		})
	}
	if _, err := clientset(t).CoreV1().Namespaces().Get(t.Context(), "default", get); err != nil {
		t.Errorf("the running control plane after all this: %v", err)
	}
}

// TestFullDiskIsFoundBeforeTheStart asks for more space than any disk has.
func TestFullDiskIsFoundBeforeTheStart(t *testing.T) {
	dir := t.TempDir()
	_, err := Start(t.Context(), Options{DataDir: dir, Listen: "127.0.0.1:0", Space: 1 << 62})
	var input *InputError
	if !errors.As(err, &input) || !strings.Contains(err.Error(), "MiB are free") || !strings.Contains(err.Error(), "free some space") {
		t.Fatalf("%v", err)
	}
	if entries, err := os.ReadDir(filepath.Join(dir, "etcd")); err != nil || len(entries) > 0 {
		t.Errorf("etcd was started: %v, %v", entries, err)
	}
}

// TestClockBeforeTheKeys: a clock that was set far back is said, and the keys stay as they are.
func TestClockBeforeTheKeys(t *testing.T) {
	dir := t.TempDir()
	store, err := certs.Open(filepath.Join(dir, "pki"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Authority(clusterAuthority); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(store.CertFile(clusterAuthority))
	if err != nil {
		t.Fatal(err)
	}
	past := func() time.Time { return time.Date(1970, 1, 2, 0, 0, 0, 0, time.UTC) }
	_, err = Start(t.Context(), Options{DataDir: dir, Listen: "127.0.0.1:0", Now: past})
	var input *InputError
	if !errors.As(err, &input) || !strings.Contains(err.Error(), "the clock shows 1970-01-02T00:00:00Z") || !strings.Contains(err.Error(), "set the clock") {
		t.Fatalf("%v", err)
	}
	if after, err := os.ReadFile(store.CertFile(clusterAuthority)); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the authority was replaced (%v)", err)
	}
}

// TestEtcdGivesUpInWords: what ends etcd is one line that says what to do.
func TestEtcdGivesUpInWords(t *testing.T) {
	for _, c := range []struct {
		err  error
		hint string
	}{{syscall.ENOSPC, "free some space"}, {errors.New("broken"), "the last lines of etcd.log"}} {
		var out bytes.Buffer
		code := 0
		log := zap.New(zapcore.NewNopCore(), zap.WithPanicHook(givingUp{out: &out, log: "etcd.log", exit: func(c int) { code = c; runtime.Goexit() }}))
		done := make(chan struct{})
		go func() {
			defer close(done)
			log.Panic("failed to save Raft hard state", zap.Error(fmt.Errorf("write wal: %w", c.err)))
		}()
		<-done
		if got := out.String(); code != 1 || !strings.Contains(got, "failed to save Raft hard state: write wal: "+c.err.Error()) || !strings.Contains(got, c.hint) {
			t.Errorf("exit %d, %q, want %q", code, got, c.hint)
		}
	}
}

// child is a control plane in a process of its own, which can be killed.
type child struct {
	cmd   *exec.Cmd
	stdin io.Closer
	ready chan struct{}
}

func startChild(t *testing.T, dir string) *child {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := &child{cmd: exec.Command(exe), ready: make(chan struct{})}
	c.cmd.Env = append(os.Environ(), childDir+"="+dir)
	c.cmd.Stderr = os.Stderr
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		if line, _ := bufio.NewReader(out).ReadString('\n'); line == "ready\n" {
			close(c.ready)
		}
	}()
	return c
}

func (c *child) awaitReady(t *testing.T) {
	t.Helper()
	select {
	case <-c.ready:
	case <-time.After(time.Minute):
		c.kill(t)
		t.Fatal("the process is not ready after a minute")
	}
}

func (c *child) kill(t *testing.T) {
	t.Helper()
	if err := c.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := c.cmd.Wait(); !errors.As(err, &exit) {
		t.Fatal(err)
	}
}

// TestSurvivesSIGKILL kills a control plane while it comes up and while it is written to. Whatever
// was acknowledged must be there at the end.
func TestSurvivesSIGKILL(t *testing.T) {
	// Two control planes at a time would only make both slow.
	if err := stopShared(); err != nil {
		t.Fatal(err)
	}
	seed := seed.Of(t)
	random := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	acknowledged := map[string]bool{}
	for round := range tier.Pick(1, 1, 4) {
		early := startChild(t, dir)
		time.Sleep(time.Duration(random.IntN(2500)) * time.Millisecond)
		early.kill(t)

		late := startChild(t, dir)
		late.awaitReady(t)
		stop := time.AfterFunc(time.Duration(100+random.IntN(900))*time.Millisecond, func() { _ = late.cmd.Process.Kill() })
		written := writeUntilItFails(t, dir, fmt.Sprintf("round-%d", round), acknowledged)
		stop.Stop()
		_ = late.cmd.Wait()
		t.Logf("round %d: %d writes acknowledged", round, written)
	}

	last := startChild(t, dir)
	last.awaitReady(t)
	client := childClient(t, dir)
	for name := range acknowledged {
		if _, err := client.CoreV1().ConfigMaps("default").Get(t.Context(), name, get); err != nil {
			t.Errorf("%s was acknowledged: %v", name, err)
		}
	}
	if err := last.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	if err := last.cmd.Wait(); err != nil {
		t.Errorf("orderly end after all: %v", err)
	}
}

// TestSurvivesAFirstStartCutShort: a process that was killed while etcd wrote its first log has
// left a log without a member, which never elects itself. The next one comes up all the same.
func TestSurvivesAFirstStartCutShort(t *testing.T) {
	if err := stopShared(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	left := &dataDir{path: dir}
	for _, part := range []string{left.etcd(), filepath.Join(left.unfounded(), "member", "snap")} {
		if err := os.MkdirAll(part, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	log, err := wal.Create(zap.NewNop(), filepath.Join(left.unfounded(), "member", "wal"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	last := startChild(t, dir)
	last.awaitReady(t)
	if _, err := os.Stat(left.unfounded()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
	if err := last.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	if err := last.cmd.Wait(); err != nil {
		t.Errorf("orderly end: %v", err)
	}
}

func writeUntilItFails(t *testing.T, dir, prefix string, acknowledged map[string]bool) int {
	t.Helper()
	client := childClient(t, dir)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for n := 0; ; n++ {
		name := fmt.Sprintf("%s-%d", prefix, n)
		if _, err := client.CoreV1().ConfigMaps("default").Create(ctx, configMap(name), create); err != nil {
			if ctx.Err() != nil {
				t.Fatal("the process was not killed")
			}
			return n
		}
		acknowledged[name] = true
	}
}

func childClient(t *testing.T, dir string) *kubernetes.Clientset {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(dir, "kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}
