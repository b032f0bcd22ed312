// Package backup is the file that a backup is: a tar.gz with a manifest and the files that it
// lists.
//
// It owns the form of that file. Pack promises that the file is there as a whole or not at all,
// readable by its owner only. Unpack promises that it takes nothing but what the manifest lists,
// byte for byte, below the folder that it is given, and that it leaves the folder out of which
// nothing can be made if anything differs. What is in the files, and what becomes of them, others
// know.
//
// Concurrency: the functions share nothing; two of them must not have the same folder.
package backup

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/version"
)

// Format is the form of the file. What an older version could not read, or would read wrongly, has
// the next number.
const Format = 1

// The kinds of backups.
const (
	// OfUp is the data directory of "nephele up".
	OfUp = "up"
	// OfCluster is what an installation in a cluster needs.
	OfCluster = "cluster"
)

const (
	manifestName = "manifest.json"
	// maxManifest bounds the manifest, in bytes, and maxFiles the files that it lists.
	maxManifest = 4 << 20
	maxFiles    = 10_000
	// maxBytes bounds what a backup is unpacked to: a few bytes can represent terabytes. A database
	// of etcd has 8 GiB at most.
	maxBytes = 16 << 30
)

// Manifest says what a backup is.
type Manifest struct {
	Format int `json:"format"`
	// Kind is OfUp or OfCluster.
	Kind string `json:"kind"`
	// Version is the release that made it, and Data the format of what is in it, which is for the
	// kind to know.
	Version string    `json:"version"`
	Data    int       `json:"data"`
	Time    time.Time `json:"time"`
	Files   []File    `json:"files"`
}

// File is one file of a backup.
type File struct {
	// Name is below the folder, with slashes.
	Name string `json:"name"`
	Size int64  `json:"size"`
	// SHA256 is that of the content, in hexadecimal digits.
	SHA256 string `json:"sha256"`
}

// Pack writes the files below a folder, and what m says of them, into a new file.
func Pack(ctx context.Context, dir string, m Manifest, to string) (err error) {
	m.Format, m.Files = Format, nil
	err = filepath.WalkDir(dir, func(at string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, at)
		if err != nil {
			return err
		}
		if !e.Type().IsRegular() {
			return fmt.Errorf("%s is no file", name)
		}
		f, err := sumOf(at)
		f.Name = filepath.ToSlash(name)
		m.Files = append(m.Files, f)
		return err
	})
	if err == nil {
		err = m.bounded() // what is packed can be unpacked
	}
	if err != nil {
		return fmt.Errorf("back up: %w", err)
	}
	if _, err := os.Lstat(to); err == nil {
		return fmt.Errorf("back up: %s: %w", to, fs.ErrExist)
	}
	out, err := os.CreateTemp(filepath.Dir(to), ".nephele-backup-") // of mode 0600
	if err != nil {
		return fmt.Errorf("back up: %w", err)
	}
	defer func() { err = errors.Join(err, os.Remove(out.Name())) }()
	err = errors.Join(write(ctx, out, dir, m), out.Sync(), out.Close())
	if err == nil {
		err = os.Link(out.Name(), to) // which replaces nothing
	}
	if err == nil {
		err = syncDir(filepath.Dir(to))
	}
	if err != nil {
		return fmt.Errorf("back up: %w", err)
	}
	return nil
}

func sumOf(name string) (File, error) {
	f, err := os.Open(name)
	if err != nil {
		return File{}, err
	}
	defer func() { _ = f.Close() }()
	sum := sha256.New()
	n, err := io.Copy(sum, f)
	return File{Size: n, SHA256: hex.EncodeToString(sum.Sum(nil))}, err
}

func write(ctx context.Context, to io.Writer, dir string, m Manifest) error {
	zipped := gzip.NewWriter(to)
	w := tar.NewWriter(zipped)
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	head := func(name string, size int64) error {
		return w.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: size, ModTime: m.Time.UTC().Truncate(time.Second), Typeflag: tar.TypeReg, Format: tar.FormatPAX})
	}
	if err := head(manifestName, int64(len(text))); err != nil {
		return err
	}
	if _, err := w.Write(text); err != nil {
		return err
	}
	for _, f := range m.Files {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := head(f.Name, f.Size); err != nil {
			return err
		}
		if err := copyFile(w, filepath.Join(dir, filepath.FromSlash(f.Name))); err != nil {
			return fmt.Errorf("%s: %w", f.Name, err) // also if it has another size by now
		}
	}
	return errors.Join(w.Close(), zipped.Close())
}

func copyFile(to io.Writer, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	_, err = io.Copy(to, f)
	return err
}

func syncDir(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// syncDirs makes the names of all files below a folder last.
func syncDirs(dir string) error {
	return filepath.WalkDir(dir, func(at string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return err
		}
		return syncDir(at)
	})
}

// Expected is what a backup must be to be taken.
type Expected struct {
	Kind string
	// Version is the release that reads it, and Data the newest format of its content that is
	// known.
	Version string
	Data    int
}

// Unpack writes the files of a backup into a folder that is there and empty. Of a file that is not
// what is expected, broken, or written by a newer release, it writes nothing that lasts: the caller
// removes the folder after an error.
func Unpack(ctx context.Context, from, into string, want Expected) (m Manifest, err error) {
	f, err := os.Open(from)
	if err != nil {
		return m, fmt.Errorf("restore: %w", err)
	}
	defer func() { _ = f.Close() }()
	if m, err = unpack(ctx, f, into, want); err != nil {
		return m, fmt.Errorf("restore: %s: %w", from, err)
	}
	return m, nil
}

func unpack(ctx context.Context, from io.Reader, into string, want Expected) (m Manifest, err error) {
	zipped, err := gzip.NewReader(from)
	if err != nil {
		return m, fmt.Errorf("this is no backup, or it is broken: %w", err)
	}
	r := tar.NewReader(zipped)
	if m, err = readManifest(r); err != nil {
		return m, err
	}
	if err := m.fits(want); err != nil {
		return m, err
	}
	for _, f := range m.Files {
		if err := ctx.Err(); err != nil {
			return m, err
		}
		h, err := r.Next()
		switch {
		case errors.Is(err, io.EOF):
			return m, fmt.Errorf("it is broken: %s is missing", f.Name)
		case err != nil:
			return m, fmt.Errorf("it is broken at %s: %w", f.Name, err)
		case h.Name != f.Name || h.Typeflag != tar.TypeReg || h.Size != f.Size:
			return m, fmt.Errorf("it is broken: it has %.200q (%d bytes) where the manifest says %s (%d bytes)", h.Name, h.Size, f.Name, f.Size)
		}
		if err := take(r, into, f); err != nil {
			return m, err
		}
	}
	if h, err := r.Next(); err == nil {
		return m, fmt.Errorf("it is broken: %.200q is not in the manifest", h.Name)
	} else if !errors.Is(err, io.EOF) {
		return m, fmt.Errorf("it is broken at its end: %w", err)
	}
	// The checksum of the whole is behind what tar reads.
	if _, err := io.Copy(io.Discard, io.LimitReader(zipped, 1<<20)); err != nil {
		return m, fmt.Errorf("it is broken at its end: %w", err)
	}
	return m, nil
}

func readManifest(r *tar.Reader) (m Manifest, err error) {
	h, err := r.Next()
	if err != nil {
		return m, fmt.Errorf("this is no backup, or it is broken: %w", err)
	}
	if h.Name != manifestName || h.Size > maxManifest {
		return m, fmt.Errorf("this is no backup: it does not begin with %s", manifestName)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		return m, fmt.Errorf("it is broken at %s: %w", manifestName, err)
	}
	// The format first: the rest may mean something else.
	if err := json.Unmarshal(text, &struct{ Format *int }{&m.Format}); err != nil {
		return m, fmt.Errorf("%s: %w", manifestName, err)
	}
	if m.Format > Format {
		return m, fmt.Errorf("it was made by a newer release: its form is %d, this one knows up to %d", m.Format, Format)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil {
		return m, fmt.Errorf("%s: %w", manifestName, err)
	}
	return m, nil
}

// fits reports why a backup cannot be taken.
func (m Manifest) fits(want Expected) error {
	switch {
	case m.Format < 1:
		return fmt.Errorf("%s: format %d: want 1 to %d", manifestName, m.Format, Format)
	case m.Kind != want.Kind:
		return fmt.Errorf("it is a backup of the kind %.20q, and %q is wanted", m.Kind, want.Kind)
	case m.Data > want.Data:
		return fmt.Errorf("it was made by a newer release (%.50s): the format of its data is %d, this one (%s) knows up to %d", m.Version, m.Data, want.Version, want.Data)
	case newer(m.Version, want.Version):
		return fmt.Errorf("it was made by the newer release %.50s, and this is %s: restore it with that one", m.Version, want.Version)
	}
	return m.bounded()
}

// bounded reports why the files that are listed cannot be in a backup.
func (m Manifest) bounded() error {
	if len(m.Files) == 0 || len(m.Files) > maxFiles {
		return fmt.Errorf("%s lists %d files: want 1 to %d", manifestName, len(m.Files), maxFiles)
	}
	names, left := map[string]bool{}, int64(maxBytes)
	for _, f := range m.Files {
		local := filepath.FromSlash(f.Name)
		if !filepath.IsLocal(local) || path.Clean(f.Name) != f.Name || strings.ContainsAny(f.Name, "\\\x00") || f.Size < 0 || names[f.Name] {
			return fmt.Errorf("%s: %.200q (%d bytes) cannot be a file", manifestName, f.Name, f.Size)
		}
		if f.Size > left {
			return fmt.Errorf("%s lists more than %d bytes", manifestName, int64(maxBytes))
		}
		left -= f.Size
		names[f.Name] = true
	}
	return nil
}

// newer reports whether a release came after another one. Builds that are no releases have no
// order.
func newer(a, b string) bool {
	va, err1 := version.ParseSemantic(a)
	vb, err2 := version.ParseSemantic(b)
	if err1 != nil || err2 != nil || va.Major()+va.Minor()+va.Patch() == 0 || vb.Major()+vb.Minor()+vb.Patch() == 0 {
		return false
	}
	return vb.LessThan(va)
}

// take writes one file.
func take(r io.Reader, into string, f File) error {
	name := filepath.Join(into, filepath.FromSlash(f.Name))
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	out, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(out, sum), r)
	if err = errors.Join(err, out.Sync(), out.Close()); err != nil {
		return fmt.Errorf("%s: %w", f.Name, err)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != f.SHA256 || n != f.Size {
		return fmt.Errorf("it is broken: %s has the SHA-256 %s, want %.64s", f.Name, got, f.SHA256)
	}
	return nil
}

// Into makes a folder by what fill puts into it: the folder is there as a whole afterwards, or as
// it was. It must be missing or empty. If it is a link, it becomes what the link leads to: systemd
// leads so to the folder of a unit with DynamicUser. What a restore left that was killed is
// removed.
func Into(dir string, fill func(staged string) error) (err error) {
	if dir, err = filepath.Abs(dir); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	if behind, err := filepath.EvalSymlinks(dir); err == nil {
		dir = behind
	}
	entries, err := os.ReadDir(dir)
	there := err == nil
	switch {
	case len(entries) > 0:
		return fmt.Errorf("restore: %s is not empty: a backup is restored into a folder of its own", dir)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("restore: %w", err)
	}
	parent, base := filepath.Split(dir)
	staged := filepath.Join(parent, "."+base+".nephele-restoring")
	if err = errors.Join(os.MkdirAll(parent, 0o700), os.RemoveAll(staged)); err == nil {
		err = os.Mkdir(staged, 0o700)
	}
	if err == nil {
		err = fill(staged)
	}
	if err == nil {
		err = syncDirs(staged)
	}
	if err == nil && there {
		err = os.Remove(dir)
	}
	if err == nil {
		err = errors.Join(os.Rename(staged, dir), syncDir(parent))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("restore: %w", err), os.RemoveAll(staged))
	}
	return nil
}
