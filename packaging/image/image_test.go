package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"helm.sh/helm/v3/pkg/chart/loader"
)

var release = Release{Version: "v1.2.3", Revision: "0123abcd", Time: time.Unix(1_700_000_000, 0)}

// program writes a module of a main package, in a new directory each time.
func program(t *testing.T) Source {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "src")
	if err := os.CopyFS(dir, os.DirFS("testdata/program")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, "go.mod.txt"), filepath.Join(dir, "go.mod")); err != nil {
		t.Fatal(err)
	}
	return Source{Root: dir, Package: "./cmd", Agent: "./cmd", Plugin: "./cmd", Stamp: "main"}
}

func build(t *testing.T, s Source, r Release) []Binary {
	t.Helper()
	var out []Binary
	for _, arch := range []string{"amd64", "arm64"} {
		b, err := s.Build(t.Context(), r, "linux", arch)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, b)
	}
	return out
}

// TestImage builds an image for two architectures twice, in different places; both are the same.
// It is pushed to a registry and pulled back, and is what it should be.
func TestImage(t *testing.T) {
	binaries := build(t, program(t), release)
	first, err := Index(release, binaries)
	if err != nil {
		t.Fatal(err)
	}
	second, err := Index(release, build(t, program(t), release))
	if err != nil {
		t.Fatal(err)
	}
	a, err1 := first.Digest()
	b, err2 := second.Digest()
	if err := errors.Join(err1, err2); err != nil || a != b {
		t.Fatalf("built twice: %s and %s (%v)", a, b, err)
	}
	later := release
	later.Version = "v1.2.4"
	third, err := Index(later, build(t, program(t), later))
	if err != nil {
		t.Fatal(err)
	}
	if c, err := third.Digest(); err != nil || c == a {
		t.Errorf("another version is the same image: %s (%v)", c, err)
	}

	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	ref, err := name.ParseReference(strings.TrimPrefix(server.URL, "http://") + "/nephele:v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.WriteIndex(ref, first, remote.WithContext(t.Context())); err != nil {
		t.Fatal(err)
	}
	pulled, err := remote.Index(ref.Context().Digest(a.String()), remote.WithContext(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := pulled.IndexManifest()
	if err != nil || len(manifest.Manifests) != 2 || manifest.Annotations["org.opencontainers.image.version"] != "v1.2.3" {
		t.Fatalf("the index is %+v (%v)", manifest, err)
	}
	for i, d := range manifest.Manifests {
		if d.Platform == nil || d.Platform.OS != "linux" || d.Platform.Architecture != binaries[i].Architecture {
			t.Fatalf("platform %v, want %s", d.Platform, binaries[i].Architecture)
		}
		one, err := pulled.Image(d.Digest)
		if err != nil {
			t.Fatal(err)
		}
		checkImage(t, one, binaries[i])
	}
}

// checkImage holds an image against what it was made of.
func checkImage(t *testing.T, one v1.Image, b Binary) {
	t.Helper()
	config, err := one.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Config.User != "65532:65532" || !slices.Equal(config.Config.Entrypoint, []string{"/nephele"}) || config.Architecture != b.Architecture || config.OS != "linux" {
		t.Errorf("configuration %+v", config)
	}
	if !config.Created.Equal(release.Time) || config.Config.Labels["org.opencontainers.image.revision"] != "0123abcd" {
		t.Errorf("created %s, labels %v", config.Created, config.Config.Labels)
	}
	files := map[string][]byte{}
	layers, err := one.Layers()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range layers {
		r, err := l.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		unpack(t, r, files, func(h *tar.Header) {
			if h.Uid != 0 || h.Gid != 0 || h.Mode&0o022 != 0 || !h.ModTime.Equal(release.Time) {
				t.Errorf("%s: owner %d, group %d, mode %o, time %s", h.Name, h.Uid, h.Gid, h.Mode, h.ModTime)
			}
		})
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(files[binaryPath], b.Content) {
		t.Errorf("%s: the binary is not the one that was built", b.Architecture)
	}
	if len(b.Agent) == 0 || !bytes.Equal(files[agentPath], b.Agent) {
		t.Errorf("%s: the agent is not the one that was built", b.Architecture)
	}
	if len(b.Plugin) == 0 || !bytes.Equal(files[pluginPath], b.Plugin) {
		t.Errorf("%s: the plugin is not the one that was built", b.Architecture)
	}
	if !strings.Contains(string(files["etc/passwd"]), "nonroot:x:65532:65532:") {
		t.Errorf("passwd: %s", files["etc/passwd"])
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(files[rootsPath]) {
		t.Error("no authority in the image")
	}
	n := 0
	for rest := files[rootsPath]; ; n++ {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if c, err := x509.ParseCertificate(block.Bytes); err != nil || !c.IsCA {
			t.Errorf("an authority cannot be read: %v", err)
		}
	}
	if n < 80 {
		t.Errorf("only %d authorities", n)
	}
	var bom struct {
		BOMFormat, SpecVersion string
		Metadata               struct{ Component struct{ Version string } }
		Components             []struct {
			Name, Version, Purl string
			Hashes              []struct{ Alg, Content string }
		}
	}
	if err := json.Unmarshal(files[bomPath], &bom); err != nil {
		t.Fatal(err)
	}
	found := false
	for _, c := range bom.Components {
		found = found || c.Name == "golang.org/x/term" && strings.HasPrefix(c.Purl, "pkg:golang/golang.org/x/term@v") && len(c.Hashes) == 1 && len(c.Hashes[0].Content) == 64
	}
	if bom.BOMFormat != "CycloneDX" || bom.Metadata.Component.Version != "v1.2.3" || !found {
		t.Errorf("list of modules: %s", files[bomPath])
	}
}

func unpack(t *testing.T, r io.Reader, into map[string][]byte, each func(*tar.Header)) {
	t.Helper()
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		each(h)
		if into[h.Name], err = io.ReadAll(tr); err != nil {
			t.Fatal(err)
		}
	}
}

// TestStamped: the program says the version that it was built as.
func TestStamped(t *testing.T) {
	b, err := program(t).Build(t.Context(), release, runtime.GOOS, runtime.GOARCH)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(b.Content, []byte("v1.2.3")) || !bytes.Contains(b.Content, []byte("0123abcd")) {
		t.Error("version and revision are not in the binary")
	}
	if here, err := os.Getwd(); err != nil || bytes.Contains(b.Content, []byte(here)) {
		t.Errorf("the binary names where it was built (%v)", err)
	}
}

// TestBrokenBuild: what does not compile is an error with the compiler's words.
func TestBrokenBuild(t *testing.T) {
	s := program(t)
	if err := os.WriteFile(filepath.Join(s.Root, "cmd", "more.go"), []byte("package main\nvar x int = \"\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Build(t.Context(), release, "linux", "amd64"); err == nil || !strings.Contains(err.Error(), "more.go") {
		t.Errorf("error %v", err)
	}
	if _, err := Index(release, []Binary{{OS: "linux", Architecture: "amd64", Content: []byte("no program")}}); err == nil {
		t.Error("an image was made of what is no program")
	}
}

func TestMain(m *testing.M) {
	log.SetOutput(io.Discard) // helm tells of the links by which the charts hold the manifests
	os.Exit(m.Run())
}

// TestCharts: packed charts are read by helm, have the version of the release, and all that they
// install.
func TestCharts(t *testing.T) {
	for chart, links := range map[string]int{"nephele": 10, "nephele-crds": 10} {
		raw, err := Chart(release, filepath.Join("../../charts", chart))
		if err != nil {
			t.Fatal(err)
		}
		again, err := Chart(release, filepath.Join("../../charts", chart))
		if err != nil || !bytes.Equal(raw, again) {
			t.Errorf("%s: packed twice it differs (%v)", chart, err)
		}
		c, err := loader.LoadArchive(bytes.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		if c.Metadata.Version != "1.2.3" || c.Metadata.AppVersion != "v1.2.3" || len(c.Files) < links || len(c.Templates) == 0 {
			t.Errorf("%s: version %s, %s; %d files, %d templates", chart, c.Metadata.Version, c.Metadata.AppVersion, len(c.Files), len(c.Templates))
		}
		onDisk, err := loader.LoadDir(filepath.Join("../../charts", chart))
		if err != nil {
			t.Fatal(err)
		}
		names := func(files []string) string { slices.Sort(files); return strings.Join(files, "\n") }
		var packed, there []string
		for _, f := range c.Raw {
			packed = append(packed, f.Name)
		}
		for _, f := range onDisk.Raw {
			there = append(there, f.Name)
		}
		if names(packed) != names(there) {
			t.Errorf("%s: packed\n%s\nhelm reads\n%s", chart, names(packed), names(there))
		}
	}
}

// TestArchive: the same files make the same bytes, and what may be executed may be.
func TestArchive(t *testing.T) {
	raw, err := Archive(release.Time, map[string][]byte{"nephele": []byte("b"), "LICENSE": []byte("a")}, "nephele")
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	unpack(t, z, files, func(h *tar.Header) {
		if want := map[string]fs.FileMode{"nephele": 0o755, "LICENSE": 0o644}[h.Name]; h.FileInfo().Mode() != want {
			t.Errorf("%s: mode %s", h.Name, h.FileInfo().Mode())
		}
	})
	if fmt.Sprintf("%s", files) != "map[LICENSE:a nephele:b]" {
		t.Errorf("files %s", files)
	}
	if got := string(Checksums(map[string][]byte{"b": []byte("b"), "a": nil})); got != "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  a\n"+
		"3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d  b\n" {
		t.Errorf("checksums:\n%s", got)
	}
}
