// Package disktest copies the directory of a disk.Store for tests. Its function may be called while
// the store writes.
package disktest

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Copy returns a copy of a directory as it was at one moment, as a disk has it on which power was
// lost. A copy during which a file came, went or was written is of no moment, and is made again.
func Copy(t testing.TB, from string) string {
	t.Helper()
	for {
		to := filepath.Join(t.TempDir(), "copy")
		before := listed(t, from)
		err := os.CopyFS(to, os.DirFS(from))
		if !slices.EqualFunc(before, listed(t, from), unchanged) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		return to
	}
}

func listed(t testing.TB, dir string) (files []fs.FileInfo) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) { // it has gone since
			return listed(t, dir)
		}
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, info)
	}
	return files
}

// unchanged tells that a file is the same one, and has not been written.
func unchanged(a, b fs.FileInfo) bool {
	return a.Name() == b.Name() && os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}
