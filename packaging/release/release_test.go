package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/nephele-io/nephele/packaging/image"
	"github.com/nephele-io/nephele/packaging/sign"
)

const (
	testKey  = "../sign/testdata/cosign.key"
	testPub  = "../sign/testdata/cosign.pub"
	password = "a-test-and-no-secret"
)

// program is a small program in the place of ours, which take minutes to build.
var program = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "nephele-release-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	err = errors.Join(os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module github.com/nephele-io/nephele\n\ngo 1.26\n"), 0o600),
		os.WriteFile(filepath.Join(dir, "main.go"), []byte("package main\n\nfunc main() { println(\"it runs\") }\n"), 0o600))
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -buildid=", "-o", "out", ".")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, out)
	}
	return os.ReadFile(filepath.Join(dir, "out"))
})

// newJob is a release that is made into a folder of its own.
func newJob(t *testing.T, signed bool) *job {
	t.Helper()
	content, err := program()
	if err != nil {
		t.Fatal(err)
	}
	j := &job{built: map[string]image.Binary{}, out: t.TempDir(), source: image.Source{Root: "../.."},
		Release: image.Release{Version: "v0.0.0-0123456789ab", Revision: strings.Repeat("0a", 20), Time: time.Unix(1_700_000_000, 0).UTC()}}
	for _, goos := range []string{"linux", "darwin"} {
		for _, arch := range []string{"amd64", "arm64"} {
			b := image.Binary{OS: goos, Architecture: arch, Content: content}
			if goos == "linux" {
				b.Agent, b.Plugin = content, content
			}
			j.built[goos+"/"+arch] = b
		}
	}
	if signed {
		text, err := os.ReadFile(testKey)
		if err == nil {
			j.key, err = sign.ParseKey(text, []byte(password))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return j
}

// made makes a release, and returns its folder.
func made(t *testing.T, signed bool) string {
	t.Helper()
	j := newJob(t, signed)
	if err := j.image(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	if err := j.archives(t.Context()); err != nil {
		t.Fatal(err)
	}
	return j.out
}

func read(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if info, err := os.Stat(f); err != nil || info.IsDir() {
			continue
		}
		if out[filepath.Base(f)], err = os.ReadFile(f); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// TestTwiceTheSame: a release that is made twice has the same bytes, signatures included. Without a
// key there is no signature, and everything else is the same.
func TestTwiceTheSame(t *testing.T) {
	one, two, plain := read(t, made(t, true)), read(t, made(t, true)), read(t, made(t, false))
	if len(one) != len(two) || len(one) < 20 {
		t.Errorf("%d and %d files", len(one), len(two))
	}
	for name, content := range one {
		if !bytes.Equal(content, two[name]) {
			t.Errorf("%s differs", name)
		}
		switch name {
		case "SHA256SUMS", "SHA256SUMS.sig", "provenance.intoto.jsonl", "nephele.pub":
		default:
			if !bytes.Equal(content, plain[name]) {
				t.Errorf("%s differs without a key", name)
			}
		}
	}
	if plain["SHA256SUMS.sig"] != nil || plain["provenance.json"] == nil {
		t.Error("a signature without a key, or no provenance")
	}
}

// TestSignaturesHold: the checksums match the files, and are signed; the provenance names each file
// by its checksum, and the image by its digest. cosign and openssl say so, too, and of changed
// files they do not.
func TestSignaturesHold(t *testing.T) {
	dir := made(t, true)
	files := read(t, dir)
	listed := map[string]string{}
	for line := range strings.Lines(string(files["SHA256SUMS"])) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		listed[name] = sum
	}
	var envelope struct{ Payload []byte }
	var statement struct {
		Subject []struct {
			Name   string
			Digest map[string]string
		}
	}
	if err := json.Unmarshal(files["provenance.intoto.jsonl"], &envelope); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(envelope.Payload, &statement); err != nil {
		t.Fatal(err)
	}
	proven := map[string]string{}
	for _, s := range statement.Subject {
		proven[s.Name] = s.Digest["sha256"]
	}
	for name, content := range files {
		sum := sha256.Sum256(content)
		hexed := hex.EncodeToString(sum[:])
		switch name {
		case "SHA256SUMS", "SHA256SUMS.sig", "nephele.pub":
		case "provenance.intoto.jsonl":
			if listed[name] != hexed {
				t.Errorf("%s is not in SHA256SUMS as it is", name)
			}
		default:
			if listed[name] != hexed || proven[name] != hexed {
				t.Errorf("%s is %s, in SHA256SUMS %s, proven %s", name, hexed, listed[name], proven[name])
			}
		}
	}
	var index struct{ Manifests []struct{ Digest string } }
	raw, err := os.ReadFile(filepath.Join(dir, "image/index.json"))
	if err != nil || json.Unmarshal(raw, &index) != nil || len(proven["nephele"]) != 64 {
		t.Errorf("the image is %q, %v", proven["nephele"], err)
	}

	changed := t.TempDir()
	write := func(name string, content []byte) string {
		path := filepath.Join(changed, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	other := write("other", append(bytes.Clone(files["SHA256SUMS"]), '\n'))
	signature, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(files["SHA256SUMS.sig"])))
	if err != nil {
		t.Fatal(err)
	}
	binary := write("signature", signature)
	if openssl, err := exec.LookPath("openssl"); err == nil {
		verify := func(file string) error {
			return exec.CommandContext(t.Context(), openssl, "dgst", "-sha256", "-verify", testPub, "-signature", binary, file).Run()
		}
		if err := verify(filepath.Join(dir, "SHA256SUMS")); err != nil {
			t.Errorf("openssl: %v", err)
		}
		if verify(other) == nil {
			t.Error("openssl takes other content")
		}
	}
	cosign, err := exec.LookPath("cosign")
	if err != nil {
		t.Skip("cosign is not here; the standard library and openssl have checked the signatures")
	}
	verify := func(args ...string) ([]byte, error) {
		return exec.CommandContext(t.Context(), cosign, append(args[:1:1], append([]string{"--key", testPub, "--insecure-ignore-tlog=true"}, args[1:]...)...)...).CombinedOutput()
	}
	sums, sig := filepath.Join(dir, "SHA256SUMS"), filepath.Join(dir, "SHA256SUMS.sig")
	if out, err := verify("verify-blob", "--signature", sig, sums); err != nil {
		t.Errorf("cosign: %v\n%s", err, out)
	}
	if out, err := verify("verify-blob", "--signature", sig, other); err == nil {
		t.Errorf("cosign takes other content\n%s", out)
	}
	provenance := filepath.Join(dir, "provenance.intoto.jsonl")
	if out, err := verify("verify-blob-attestation", "--type", "slsaprovenance1", "--signature", provenance, filepath.Join(dir, "install.sh")); err != nil {
		t.Errorf("cosign: provenance: %v\n%s", err, out)
	}
	if out, err := verify("verify-blob-attestation", "--type", "slsaprovenance1", "--signature", provenance, other); err == nil {
		t.Errorf("cosign takes a file for another one\n%s", out)
	}
}

// TestImageIsSigned: what is pushed is signed in the registry, where and as cosign has it.
func TestImageIsSigned(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	j := newJob(t, true)
	to := strings.TrimPrefix(server.URL, "http://") + "/nephele:v1"
	if err := j.image(t.Context(), to); err != nil {
		t.Fatal(err)
	}
	ref, err := name.ParseReference(strings.Split(to, ":v1")[0] + ":sha256-" + j.digest.Hex + ".sig")
	if err != nil {
		t.Fatal(err)
	}
	signed, err := remote.Image(ref)
	if err != nil {
		t.Fatal(err)
	}
	m, err := signed.Manifest()
	if err != nil || len(m.Layers) != 1 || m.Layers[0].Annotations["dev.cosignproject.cosign/signature"] == "" {
		t.Fatalf("%+v, %v", m, err)
	}
	layers, err := signed.Layers()
	if err != nil {
		t.Fatal(err)
	}
	r, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	claim, err := io.ReadAll(r)
	if err != nil || !strings.Contains(string(claim), `"docker-manifest-digest":"sha256:`+j.digest.Hex+`"`) {
		t.Errorf("the claim is %s, %v", claim, err)
	}
	cosign, err := exec.LookPath("cosign")
	if err != nil {
		t.Skip("cosign is not here")
	}
	verify := func(key string) ([]byte, error) {
		return exec.CommandContext(t.Context(), cosign, "verify", "--key", key, "--insecure-ignore-tlog=true", "--allow-http-registry", strings.Split(to, ":v1")[0]+"@"+j.digest.String()).CombinedOutput()
	}
	if out, err := verify(testPub); err != nil {
		t.Errorf("cosign: %v\n%s", err, out)
	}
	if out, err := verify(otherKey(t)); err == nil {
		t.Errorf("cosign takes another key\n%s", out)
	}
}

// otherKey is a public key that has signed nothing.
func otherKey(t *testing.T) string {
	t.Helper()
	const text = `-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEaxfR8uEsQkf4vOblY6RA8ncDfYEt
6zOg9KE5RdiYwpZP40Li/hp/m47n60p8D54WK84zV2sxXs7LtkBoN79R9Q==
-----END PUBLIC KEY-----
`
	path := filepath.Join(t.TempDir(), "other.pub")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestInstall: the script installs what is signed, and nothing if the archive, the list, the
// signature, the key or the version is another one, or if any of them is missing.
func TestInstall(t *testing.T) {
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("openssl is not here")
	}
	if runtime.GOOS != "linux" {
		t.Skip("the programs of this test are for linux")
	}
	whole := read(t, made(t, true))
	archive := "nephele_0.0.0-0123456789ab_linux_" + runtime.GOARCH + ".tar.gz"
	for what, c := range map[string]struct {
		change func(files map[string][]byte)
		key    string
		args   []string
		want   string
		// without is a tool that is not there.
		without string
	}{
		"as it is":            {want: ""},
		"with its version":    {args: []string{"--version", "v0.0.0-0123456789ab"}, want: ""},
		"another version":     {args: []string{"--version", "v1.0.0"}, want: "not version v1.0.0"},
		"another archive":     {change: func(f map[string][]byte) { f[archive] = append(bytes.Clone(f[archive]), 0) }, want: "is not the one that was signed"},
		"no archive":          {change: func(f map[string][]byte) { delete(f, archive) }, want: "has no " + archive},
		"another list":        {change: func(f map[string][]byte) { f["SHA256SUMS"] = append(bytes.Clone(f["SHA256SUMS"]), '\n') }, want: "is not signed with"},
		"no list":             {change: func(f map[string][]byte) { delete(f, "SHA256SUMS") }, want: "has no SHA256SUMS"},
		"no signature":        {change: func(f map[string][]byte) { delete(f, "SHA256SUMS.sig") }, want: "has no SHA256SUMS.sig"},
		"an empty signature":  {change: func(f map[string][]byte) { f["SHA256SUMS.sig"] = nil }, want: "SHA256SUMS"},
		"a broken signature":  {change: func(f map[string][]byte) { f["SHA256SUMS.sig"] = []byte("AAAA\n") }, want: "is not signed with"},
		"another key":         {key: otherKey(t), want: "is not signed with"},
		"the key of the list": {key: "SHA256SUMS", want: "cannot be read"},
		"no key":              {key: "-", want: "--key is missing"},
		"a list of no use": {change: func(f map[string][]byte) {
			f["SHA256SUMS"] = bytes.ReplaceAll(f["SHA256SUMS"], []byte("nephele_"), []byte("other_"))
			resign(t, f)
		}, want: "has no archive for"},
		"two archives": {change: func(f map[string][]byte) {
			f["SHA256SUMS"] = append(bytes.Clone(f["SHA256SUMS"]), []byte(strings.Repeat("0", 64)+"  nephele_9.9.9_linux_"+runtime.GOARCH+".tar.gz\n")...)
			resign(t, f)
		}, want: "several archives"},
		"no program": {change: func(f map[string][]byte) {
			content, err := image.Archive(time.Unix(0, 0), map[string][]byte{"README": []byte("x")})
			if err != nil {
				t.Fatal(err)
			}
			f[archive] = content
			f["SHA256SUMS"] = image.Checksums(map[string][]byte{archive: content})
			resign(t, f)
		}, want: "has no program nephele"},
		"no openssl":          {without: "openssl", want: "openssl or cosign is needed"},
		"no sha256sum":        {without: "sha256sum", want: "sha256sum or shasum is needed"},
		"no tar":              {without: "tar", want: "tar is needed"},
		"no curl":             {without: "curl", args: []string{"--from", "https://example.com"}, want: "curl is needed"},
		"an unknown argument": {args: []string{"--force"}, want: "unknown argument"},
		"plain HTTP":          {args: []string{"--from", "http://example.com"}, want: "want a folder or https"},
	} {
		files := map[string][]byte{}
		for n, content := range whole {
			files[n] = content
		}
		if c.change != nil {
			c.change(files)
		}
		from, to := t.TempDir(), filepath.Join(t.TempDir(), "bin")
		for n, content := range files {
			if err := os.WriteFile(filepath.Join(from, n), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		args := []string{"install.sh", "--from", from, "--to", to}
		switch c.key {
		case "":
			args = append(args, "--key", testPub)
		case "-":
		default:
			args = append(args, "--key", c.key)
		}
		cmd := exec.CommandContext(t.Context(), "sh", append(args, c.args...)...)
		if c.without != "" {
			cmd.Env = append(os.Environ(), "PATH="+toolsBut(t, c.without))
		}
		out, err := cmd.CombinedOutput()
		installed, _ := os.ReadDir(to)
		if c.want == "" {
			said, runErr := exec.CommandContext(t.Context(), filepath.Join(to, "nephele")).CombinedOutput()
			if err != nil || len(installed) != 2 || runErr != nil || string(said) != "it runs\n" {
				t.Errorf("%s: %v, installed %v, %v %s\n%s", what, err, installed, runErr, said, out)
			}
		} else if err == nil || !strings.Contains(string(out), c.want) || len(installed) > 0 {
			t.Errorf("%s: %v, installed %v, want %q\n%s", what, err, installed, c.want, out)
		}
	}
}

// toolsBut is a folder with the tools that the script needs, but one.
func toolsBut(t *testing.T, but string) string {
	t.Helper()
	dir := t.TempDir()
	for _, tool := range []string{"chmod", "cp", "gzip", "mkdir", "mktemp", "mv", "openssl", "rm", "sed", "sha256sum", "tar", "uname", "wc"} {
		if tool == but {
			continue
		}
		path, err := exec.LookPath(tool)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(dir, tool)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// resign signs the list of a release anew, as the releaser could.
func resign(t *testing.T, files map[string][]byte) {
	t.Helper()
	signature, err := newJob(t, true).key.Blob(files["SHA256SUMS"])
	if err != nil {
		t.Fatal(err)
	}
	files["SHA256SUMS.sig"] = []byte(sign.Base64(signature) + "\n")
}

// TestSection: a release has what CHANGELOG.md says of it, and cannot be made if that is nothing.
func TestSection(t *testing.T) {
	const changes = "# Changes\n\nWords.\n\n## Unreleased\n\n- new\n\n## v1.2.3 (2026-11-28)\n\n- a\n- b\n\n## v1.2.2\n\n- old\n"
	for version, want := range map[string]string{
		"v1.2.3": "# v1.2.3 (2026-11-28)\n\n- a\n- b\n", "v1.2.2": "# v1.2.2\n\n- old\n", "v0.0.0-0123": "# v0.0.0-0123\n\n- new\n", "v1.2.4-rc.1": "# v1.2.4-rc.1\n\n- new\n",
		"v1.2.4": "", "v1.2": "# v1.2\n\n- new\n",
	} {
		if got, err := section(changes, version); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", version, got, err)
		}
	}
}

// TestReady: what keeps a release from being made is known before its image is pushed.
func TestReady(t *testing.T) {
	j := &job{source: image.Source{Root: "../.."}, Release: image.Release{Version: "v0.0.0-0123456789ab"}}
	if text, err := j.ready(); err != nil || text == "" {
		t.Errorf("%q, %v", text, err)
	}
	j.Version = "v999.0.0"
	if _, err := j.ready(); err == nil || !strings.Contains(err.Error(), `no section "v999.0.0"`) {
		t.Error(err)
	}
	j.source.Root = t.TempDir()
	broken := filepath.Join(j.source.Root, "advisories", "osv")
	if err := errors.Join(os.MkdirAll(broken, 0o700), os.WriteFile(filepath.Join(broken, "x.json"), []byte("{"), 0o600),
		os.WriteFile(filepath.Join(j.source.Root, "CHANGELOG.md"), []byte("## v999.0.0\n\n- new\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := j.ready(); err == nil || !strings.Contains(err.Error(), "osv/x.json") {
		t.Error(err)
	}
}
