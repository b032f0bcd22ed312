package disktest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nephele-io/nephele/internal/agent/disk/disktest"
)

// TestCopyIsOfOneMoment copies a directory while files are written under other names and renamed:
// each copy has the file, and nothing else.
func TestCopyIsOfOneMoment(t *testing.T) {
	dir := t.TempDir()
	replace := func(i int) {
		tmp := filepath.Join(dir, fmt.Sprint("state.", i))
		if err := os.WriteFile(tmp, []byte{1}, 0o600); err != nil {
			t.Error(err)
		}
		if err := os.Rename(tmp, filepath.Join(dir, "state")); err != nil {
			t.Error(err)
		}
	}
	replace(0)
	done := make(chan struct{})
	var w sync.WaitGroup
	w.Go(func() {
		again := time.NewTicker(time.Millisecond)
		defer again.Stop()
		for i := 1; ; i++ {
			select {
			case <-done:
				return
			case <-again.C:
				replace(i)
			}
		}
	})
	for range 100 {
		if _, err := os.Stat(filepath.Join(disktest.Copy(t, dir), "state")); err != nil {
			t.Error(err)
		}
	}
	close(done)
	w.Wait()
}
