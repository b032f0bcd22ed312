package controlplane

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// childDir, when set in the environment, makes the test binary a control plane process for that
// data directory.
const childDir = "NEPHELE_TEST_CONTROLPLANE_DIR"

// shared is the control plane of most tests: it takes seconds to start. Tests run one after the
// other, each in namespaces of its own, so no lock is needed.
var shared struct {
	dir string
	cp  *ControlPlane
}

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if dir := os.Getenv(childDir); dir != "" {
		return runChild(dir)
	}
	if dir, file, ok := strings.Cut(os.Getenv(restoresInto), ":"); ok {
		return runRestore(dir, file)
	}
	dir, err := os.MkdirTemp("", "controlplane")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	shared.dir = dir
	code := m.Run()
	if err := stopShared(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// runChild serves until standard input ends, and says on standard output when it is ready.
func runChild(dir string) int {
	ctx := context.Background()
	cp, err := Start(ctx, Options{DataDir: dir, Listen: "127.0.0.1:0"})
	if err == nil {
		err = cp.Ready(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, bufio.NewReader(os.Stdin))
	if err := cp.Stop(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// server returns the shared control plane, ready.
func server(t *testing.T) *ControlPlane {
	t.Helper()
	if shared.cp == nil {
		cp, err := Start(t.Context(), Options{DataDir: shared.dir, Listen: "127.0.0.1:0", Podless: true})
		if err != nil {
			t.Fatal(err)
		}
		shared.cp = cp
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := shared.cp.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	return shared.cp
}

func stopShared() error {
	if shared.cp == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err := shared.cp.Stop(ctx)
	shared.cp = nil
	return err
}

func clientset(t *testing.T) *kubernetes.Clientset {
	t.Helper()
	client, err := kubernetes.NewForConfig(server(t).RestConfig())
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// eventually tries until it holds, for at most half a minute.
func eventually(t *testing.T, what string, try func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try(ctx)
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s: %v", what, err)
		}
	}
}

// gone is nil if err says that an object does not exist.
func gone(err error) error {
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err == nil:
		return fmt.Errorf("it still exists")
	default:
		return err
	}
}

var (
	get    = metav1.GetOptions{}
	create = metav1.CreateOptions{}
	del    = metav1.DeleteOptions{}
)
