package backup

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var now = time.Date(2026, 11, 28, 10, 0, 0, 0, time.UTC)

// want is what this release takes.
var want = Expected{Kind: OfUp, Version: "v1.2.3", Data: 2}

func made(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func content(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		if info, err := e.Info(); err != nil || info.Mode() != 0o600 {
			t.Errorf("%s has the mode %v, %v", path, info.Mode(), err)
		}
		raw, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		out[filepath.ToSlash(name)] = string(raw)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

var sample = map[string]string{"format": "1\n", "pki/ca.key": strings.Repeat("secret", 50), "etcd.snapshot": strings.Repeat("\x00data", 3000), "empty": ""}

// TestPack: what was packed is unpacked; the file is its owner's, and replaces nothing.
func TestPack(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "b.tar.gz")
	if err := Pack(t.Context(), made(t, sample), Manifest{Kind: OfUp, Version: "v1.2.3", Data: 2, Time: now}, file); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	into := t.TempDir()
	m, err := Unpack(t.Context(), file, into, want)
	if err != nil || m.Version != "v1.2.3" || !m.Time.Equal(now) {
		t.Fatalf("%+v, %v", m, err)
	}
	if got := content(t, into); fmt.Sprint(got) != fmt.Sprint(sample) {
		t.Errorf("unpacked %v", got)
	}
	if err := Pack(t.Context(), made(t, sample), Manifest{}, file); !errors.Is(err, fs.ErrExist) {
		t.Errorf("over a file: %v", err)
	}
	if left, err := os.ReadDir(filepath.Dir(file)); err != nil || len(left) != 1 {
		t.Errorf("left %v, %v", left, err)
	}
	linked := made(t, sample)
	if err := os.Symlink("/etc/passwd", filepath.Join(linked, "link")); err != nil {
		t.Fatal(err)
	}
	if err := Pack(t.Context(), linked, Manifest{}, file+"2"); err == nil {
		t.Error("a link is packed")
	}
}

// TestBroken: a file that is cut anywhere, or has another byte anywhere, gives an error or the very
// same content.
func TestBroken(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "b.tar.gz")
	if err := Pack(t.Context(), made(t, sample), Manifest{Kind: OfUp, Version: "v1.2.3", Data: 2, Time: now}, file); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	try := func(what string, raw []byte) {
		into := t.TempDir()
		if _, err := unpack(t.Context(), bytes.NewReader(raw), into, want); err != nil {
			refused++
		} else if got := content(t, into); fmt.Sprint(got) != fmt.Sprint(sample) {
			t.Errorf("%s: taken as %v", what, got)
		}
	}
	for n := 0; n < len(raw); n += 7 {
		try(fmt.Sprint("cut at ", n), raw[:n])
		changed := bytes.Clone(raw)
		changed[n] ^= 0x10
		try(fmt.Sprint("changed at ", n), changed)
	}
	if tries := 2 * (len(raw)/7 + 1); refused < tries-10 {
		t.Errorf("%d of %d are refused", refused, tries)
	}
}

type member struct {
	name, content string
	kind          byte
}

func sum(text string) string {
	s := sha256.Sum256([]byte(text))
	return hex.EncodeToString(s[:])
}

// archive makes a file by hand.
func archive(t *testing.T, manifest any, members ...member) []byte {
	t.Helper()
	text, err := json.Marshal(manifest)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	for _, m := range append([]member{{name: manifestName, content: string(text)}}, members...) {
		h := &tar.Header{Name: m.name, Size: int64(len(m.content)), Mode: 0o600, Typeflag: tar.TypeReg}
		if m.kind != 0 {
			h.Typeflag, h.Size, h.Linkname = m.kind, 0, m.content
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := w.Write([]byte(m.content)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestRefused: what is not for here, from a newer release, or not what its manifest says.
func TestRefused(t *testing.T) {
	t.Parallel()
	one := File{Name: "a", Size: 1, SHA256: sum("x")}
	ok := Manifest{Format: Format, Kind: OfUp, Version: "v1.2.3", Data: 2, Files: []File{one}}
	but := func(change func(m *Manifest)) Manifest { m := ok; m.Files = []File{one}; change(&m); return m }
	named := func(name string) Manifest { return but(func(m *Manifest) { m.Files[0].Name = name }) }
	x := member{name: "a", content: "x"}
	for what, c := range map[string]struct {
		raw  []byte
		want string
	}{
		"whole":                 {archive(t, ok, x), ""},
		"an older release":      {archive(t, but(func(m *Manifest) { m.Version, m.Data = "v1.1.9", 1 }), x), ""},
		"a build of a commit":   {archive(t, but(func(m *Manifest) { m.Version = "v0.0.0-0123456789ab" }), x), ""},
		"a newer release":       {archive(t, but(func(m *Manifest) { m.Version = "v1.3.0" }), x), "newer release v1.3.0"},
		"newer data":            {archive(t, but(func(m *Manifest) { m.Data = 3 }), x), "newer release"},
		"a newer form":          {archive(t, map[string]any{"format": 2, "kinds": []int{1}}, x), "newer release"},
		"no form":               {archive(t, but(func(m *Manifest) { m.Format = 0 }), x), "want 1 to 1"},
		"another kind":          {archive(t, but(func(m *Manifest) { m.Kind = OfCluster }), x), `"up" is wanted`},
		"an unknown field":      {archive(t, map[string]any{"format": 1, "kind": "up", "other": 1}, x), "unknown field"},
		"no files":              {archive(t, but(func(m *Manifest) { m.Files = nil }), x), "lists 0 files"},
		"a file twice":          {archive(t, but(func(m *Manifest) { m.Files = []File{one, one} }), x, x), "cannot be a file"},
		"terabytes":             {archive(t, but(func(m *Manifest) { m.Files = []File{one, {Name: "b", Size: maxBytes}} }), x), "more than 17179869184 bytes"},
		"more than can be":      {archive(t, but(func(m *Manifest) { m.Files = []File{{Name: "a", Size: 1<<63 - 1}, {Name: "b", Size: 1<<63 - 1}} }), x), "more than 17179869184 bytes"},
		"a negative size":       {archive(t, but(func(m *Manifest) { m.Files[0].Size = -1 }), x), "cannot be a file"},
		"out of the folder":     {archive(t, named("../a"), member{name: "../a", content: "x"}), "cannot be a file"},
		"from the root":         {archive(t, named("/a"), member{name: "/a", content: "x"}), "cannot be a file"},
		"by a detour":           {archive(t, named("b/../a"), member{name: "b/../a", content: "x"}), "cannot be a file"},
		"other content":         {archive(t, ok, member{name: "a", content: "y"}), "has the SHA-256"},
		"another size":          {archive(t, ok, member{name: "a", content: "xx"}), "where the manifest says"},
		"another name":          {archive(t, ok, member{name: "b", content: "x"}), "where the manifest says"},
		"a link":                {archive(t, ok, member{name: "a", content: "/etc/passwd", kind: tar.TypeSymlink}), "where the manifest says"},
		"a file too few":        {archive(t, ok), "a is missing"},
		"a file too many":       {archive(t, ok, x, member{name: "b", content: "x"}), "not in the manifest"},
		"no gzip":               {[]byte("x"), "no backup"},
		"no manifest":           {archive(t, ok, x)[:0], "no backup"},
		"a manifest of another": {archive(t, []int{}, x), "manifest.json"},
	} {
		_, err := unpack(t.Context(), bytes.NewReader(c.raw), t.TempDir(), want)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", what, err, c.want)
		}
	}
}

// TestInto: a folder is made as a whole or not at all; what is in one stays.
func TestInto(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	dir := filepath.Join(parent, "data")
	fill := func(staged string) error { return os.WriteFile(filepath.Join(staged, "a"), []byte("x"), 0o600) }
	only := func(what string, names ...string) {
		t.Helper()
		var got []string
		entries, err := os.ReadDir(parent)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			got = append(got, e.Name())
		}
		if fmt.Sprint(got) != fmt.Sprint(names) {
			t.Errorf("%s: there is %v, want %v", what, got, names)
		}
	}
	broken := errors.New("broken")
	if err := Into(dir, func(staged string) error { return errors.Join(fill(staged), broken) }); !errors.Is(err, broken) {
		t.Error(err)
	}
	only("after an error")
	// What a process left that was killed is in nobody's way.
	left := filepath.Join(parent, ".data.nephele-restoring")
	if err := errors.Join(os.Mkdir(left, 0o700), os.WriteFile(filepath.Join(left, "b"), nil, 0o600), os.Mkdir(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	if err := Into(dir, fill); err != nil {
		t.Error(err)
	}
	only("done", "data")
	if got := content(t, dir); fmt.Sprint(got) != "map[a:x]" {
		t.Errorf("it has %v", got)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if err := Into(dir, fill); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("a second time: %v", err)
	}
	only("refused", "data")
}

// TestIntoLink: through a link, such as that of systemd to the folder of a unit, the folder behind
// it is made, and the link stays.
func TestIntoLink(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	real, link := filepath.Join(parent, "private", "up"), filepath.Join(parent, "up")
	if err := errors.Join(os.MkdirAll(real, 0o700), os.Symlink("private/up", link)); err != nil {
		t.Fatal(err)
	}
	fill := func(staged string) error { return os.WriteFile(filepath.Join(staged, "a"), []byte("x"), 0o600) }
	if err := Into(link, fill); err != nil {
		t.Fatal(err)
	}
	if got := content(t, real); fmt.Sprint(got) != "map[a:x]" {
		t.Errorf("it has %v", got)
	}
	if to, err := os.Readlink(link); err != nil || to != "private/up" {
		t.Errorf("the link leads to %q, %v", to, err)
	}
	if err := Into(link, fill); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("a second time: %v", err)
	}
}
