package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Archive packs files, by their names, into a tar.gz in the order of the names. Files in executable
// may be executed.
func Archive(at time.Time, files map[string][]byte, executable ...string) ([]byte, error) {
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	if err := pack(zipped, at, files, executable...); err != nil {
		return nil, err
	}
	if err := zipped.Close(); err != nil {
		return nil, fmt.Errorf("close the archive: %w", err)
	}
	return out.Bytes(), nil
}

// pack writes a tar.
func pack(to io.Writer, at time.Time, files map[string][]byte, executable ...string) error {
	w := tar.NewWriter(to)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		mode := int64(0o644)
		if slices.Contains(executable, name) {
			mode = 0o755
		}
		err := w.WriteHeader(&tar.Header{
			Name: name, Mode: mode, Size: int64(len(files[name])), ModTime: at.UTC().Truncate(time.Second), Typeflag: tar.TypeReg, Format: tar.FormatPAX,
		})
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if _, err := w.Write(files[name]); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("close the archive: %w", err)
	}
	return nil
}

// Chart packs a chart as "helm package" does, with the version of the release in it. Links are
// followed; version is without a "v", as charts have it.
func Chart(r Release, dir string) ([]byte, error) {
	name := filepath.Base(dir)
	files := map[string][]byte{}
	if err := gather(files, dir, name); err != nil {
		return nil, fmt.Errorf("chart %s: %w", name, err)
	}
	meta := name + "/Chart.yaml"
	text := strings.Replace(string(files[meta]), "\nversion: 0.0.0\n", "\nversion: "+strings.TrimPrefix(r.Version, "v")+"\n", 1)
	text = strings.Replace(text, "\nappVersion: v0.0.0\n", "\nappVersion: "+r.Version+"\n", 1)
	if r.Version != "v0.0.0" && strings.Contains(text, "0.0.0\n") {
		return nil, fmt.Errorf("chart %s: Chart.yaml does not have version 0.0.0 and appVersion v0.0.0", name)
	}
	files[meta] = []byte(text)
	return Archive(r.Time, files)
}

// gather reads what .helmignore of the charts leaves in: no Go code, nothing for tests, nothing
// for kustomize.
func gather(files map[string][]byte, dir, as string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		info, err := os.Stat(path)
		switch {
		case err != nil:
			return fmt.Errorf("read: %w", err)
		case info.IsDir() && e.Name() == "testdata", strings.HasSuffix(e.Name(), ".go"), e.Name() == "kustomization.yaml":
		case info.IsDir():
			if err := gather(files, path, as+"/"+e.Name()); err != nil {
				return err
			}
		case info.Mode().Type() == fs.FileMode(0):
			if files[as+"/"+e.Name()], err = os.ReadFile(path); err != nil {
				return fmt.Errorf("read: %w", err)
			}
		}
	}
	return nil
}

// Layout packs an image, as an OCI layout, into a tar: what "skopeo copy oci-archive:" and
// "docker load" read.
func Layout(at time.Time, dir string) ([]byte, error) {
	files := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		files[filepath.ToSlash(name)], err = os.ReadFile(path)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the image: %w", err)
	}
	var out bytes.Buffer
	if err := pack(&out, at, files); err != nil {
		return nil, fmt.Errorf("pack the image: %w", err)
	}
	return out.Bytes(), nil
}

// Checksums are the SHA-256 of files, in the form that sha256sum -c reads.
func Checksums(files map[string][]byte) []byte {
	var out bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(files)) {
		sum := sha256.Sum256(files[name])
		fmt.Fprintf(&out, "%s  %s\n", hex.EncodeToString(sum[:]), name)
	}
	return out.Bytes()
}
