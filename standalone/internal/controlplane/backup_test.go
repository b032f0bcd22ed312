package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/nephele-io/nephele/internal/backup"
)

// restoresInto, when set in the environment, makes the test binary restore the backup that is named
// behind a colon into a folder.
const restoresInto = "NEPHELE_TEST_RESTORES_INTO"

var taken = backup.Expected{Kind: backup.OfUp, Version: "v1.2.3", Data: DataFormat}

func runRestore(dir, file string) int {
	err := backup.Into(dir, func(staged string) error {
		if _, err := backup.Unpack(context.Background(), file, staged, taken); err != nil {
			return err
		}
		return Restore(staged)
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// packed backs up a data directory into a file.
func packed(t *testing.T, dir, version string) string {
	t.Helper()
	staged, file := t.TempDir(), filepath.Join(t.TempDir(), "backup.tar.gz")
	if err := Backup(t.Context(), dir, staged); err != nil {
		t.Fatal(err)
	}
	if err := backup.Pack(t.Context(), staged, backup.Manifest{Kind: backup.OfUp, Version: version, Data: DataFormat, Time: time.Now()}, file); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestBackup: while it is written to, a running control plane is backed up as it is at one instant;
// what is restored has every object of before, the Secrets can be read, and later versions are
// later. Watchers cannot take an old version for a new one. A process that is killed while it
// restores leaves nothing, or the whole. Of a control plane that does not run, the same.
func TestBackup(t *testing.T) {
	ns := newNamespace(t, "backup")
	client := clientset(t)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "secret"}, Data: map[string][]byte{"k": []byte("v")}}
	if _, err := client.CoreV1().Secrets(ns).Create(t.Context(), secret, create); err != nil {
		t.Fatal(err)
	}
	// A writes before B, always: a backup that has the nth B has the nth A.
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var writers sync.WaitGroup
	wrote := make(chan struct{})
	writers.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			for _, name := range []string{"a", "b"} {
				// No call is cut off: the server may carry it out when everything is counted.
				if _, err := client.CoreV1().ConfigMaps(ns).Create(t.Context(), configMap(fmt.Sprint(name, n)), create); err != nil {
					t.Error(err)
					return
				}
			}
			if n == 5 {
				close(wrote)
			}
		}
	})
	<-wrote
	before, err := client.CoreV1().ConfigMaps(ns).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	file := packed(t, shared.dir, "v1.1.0") // an older release than the one that restores it
	stop()
	writers.Wait()
	last, err := client.CoreV1().ConfigMaps(ns).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := stopShared(); err != nil {
		t.Fatal(err)
	}
	stopped := packed(t, shared.dir, "v1.2.3")

	whole := filepath.Join(t.TempDir(), "data")
	if code := runRestore(whole, stopped); code != 0 {
		t.Fatalf("stopped: exit code %d", code)
	}
	for what, dir := range map[string]string{"running": killedRestores(t, file), "stopped": whole} {
		restored(t, dir, func(client kubernetes.Interface) {
			if s, err := client.CoreV1().Secrets(ns).Get(t.Context(), "secret", get); err != nil || string(s.Data["k"]) != "v" {
				t.Errorf("%s: the Secret: %v, %v", what, s, err)
			}
			got, err := client.CoreV1().ConfigMaps(ns).List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			there := map[string]bool{}
			for _, c := range got.Items {
				there[c.Name] = true
			}
			for _, c := range before.Items {
				if !there[c.Name] {
					t.Errorf("%s: %s is missing", what, c.Name)
				}
			}
			for name := range there {
				if n, is := strings.CutPrefix(name, "b"); is && !there["a"+n] {
					t.Errorf("%s: it has b%s, and not a%s, which came before", what, n, n)
				}
			}
			if what == "stopped" && len(got.Items) != len(last.Items) {
				t.Errorf("%d of %d ConfigMaps", len(got.Items), len(last.Items))
			}
			if revisionOf(t, got.ResourceVersion) <= revisionOf(t, last.ResourceVersion) {
				t.Errorf("%s: version %s, and before it was %s", what, got.ResourceVersion, last.ResourceVersion)
			}
			_, err = client.CoreV1().ConfigMaps(ns).List(t.Context(), metav1.ListOptions{ResourceVersion: last.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchExact})
			if !apierrors.IsResourceExpired(err) {
				t.Errorf("%s: a version of before is answered: %v", what, err)
			}
			if _, err := client.CoreV1().ConfigMaps(ns).Create(t.Context(), configMap("new"), create); err != nil {
				t.Errorf("%s: nothing can be written: %v", what, err)
			}
		})
	}
}

func revisionOf(t *testing.T, text string) (n int64) {
	t.Helper()
	if _, err := fmt.Sscan(text, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// restored runs a control plane on a directory for a while.
func restored(t *testing.T, dir string, during func(kubernetes.Interface)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cp, err := Start(ctx, Options{DataDir: dir, Listen: "127.0.0.1:0", Podless: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := cp.Stop(ctx); err != nil {
			t.Error(err)
		}
	}()
	if err := cp.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(cp.RestConfig())
	if err != nil {
		t.Fatal(err)
	}
	during(client)
}

// killedRestores kills processes that restore, each a little later than the one before, until one
// is through. It returns the folder.
func killedRestores(t *testing.T, file string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for lives := time.Millisecond; ; lives = lives * 3 / 2 {
		ctx, cancel := context.WithTimeout(t.Context(), lives)
		cmd := exec.CommandContext(ctx, exe) // killed when its time is up
		cmd.Env = append(os.Environ(), restoresInto+"="+dir+":"+file)
		out, err := cmd.CombinedOutput()
		killed := ctx.Err() != nil
		cancel()
		if err == nil {
			break
		}
		if !killed || lives > time.Minute {
			t.Fatalf("after %v: %v\n%s", lives, err, out)
		}
		// A folder that is there is whole: whatever is started on it is the next test.
		if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
			return dir
		} else if !errors.Is(err, os.ErrNotExist) && err != nil {
			t.Fatal(err)
		}
	}
	if runRestore(dir, file) == 0 {
		t.Error("a backup is restored over a data directory")
	}
	return dir
}

// TestBackupOfNothing: what is no data directory is told, and nothing is left of it.
func TestBackupOfNothing(t *testing.T) {
	empty := t.TempDir()
	if err := Backup(t.Context(), empty, t.TempDir()); err == nil || !strings.Contains(err.Error(), "is no data directory") {
		t.Error(err)
	}
	if left, err := os.ReadDir(empty); err != nil || len(left) > 0 {
		t.Errorf("it has %v, %v", left, err)
	}
}
