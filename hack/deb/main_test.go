package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

func newPack(t *testing.T) *pack {
	binary := filepath.Join(t.TempDir(), "nephele")
	if err := os.WriteFile(binary, []byte("binary"), 0o755); err != nil {
		t.Fatal(err)
	}
	return &pack{binary: binary, arch: "amd64", version: "1.2.3~rc1", units: "../../packaging/agent", time: time.Unix(1700000000, 0)}
}

// TestPackage reads the package as dpkg does.
func TestPackage(t *testing.T) {
	p := newPack(t)
	dir := t.TempDir()
	name, err := p.write(dir)
	if err != nil {
		t.Fatal(err)
	}
	archive, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	members := unar(t, archive)
	if string(members["debian-binary"]) != "2.0\n" {
		t.Errorf("debian-binary is %q", members["debian-binary"])
	}
	data, control := untar(t, members["data.tar.gz"]), untar(t, members["control.tar.gz"])
	if string(data["./usr/bin/nephele-agent"].data) != "binary" || data["./usr/bin/nephele-agent"].mode != 0o755 || data["./etc/nephele/agent.yaml"].mode != 0o600 {
		t.Errorf("%+v", data)
	}
	for _, unit := range []string{"nephele-agent.service", "nephele-agent-boot.service"} {
		if !bytes.Contains(data["./lib/systemd/system/"+unit].data, []byte("ExecStart=/usr/bin/nephele-agent ")) {
			t.Errorf("%s is %q", unit, data["./lib/systemd/system/"+unit].data)
		}
	}
	for _, want := range []string{"Package: nephele-agent\n", "Version: 1.2.3~rc1\n", "Architecture: amd64\n"} {
		if !bytes.Contains(control["./control"].data, []byte(want)) {
			t.Errorf("%q is not in\n%s", want, control["./control"].data)
		}
	}
	for _, script := range []string{"./postinst", "./prerm", "./postrm"} {
		if control[script].mode != 0o755 {
			t.Errorf("%s has mode %o", script, control[script].mode)
		}
	}
	if again, err := p.write(t.TempDir()); err != nil {
		t.Error(err)
	} else if second, err := os.ReadFile(again); err != nil || !bytes.Equal(archive, second) {
		t.Errorf("a second one differs: %v", err)
	}
	for _, v := range []string{"", "v1", "1 2", "1:2"} {
		p.version = v
		if _, err := p.write(dir); err == nil {
			t.Errorf("version %q is accepted", v)
		}
	}
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		t.Log("there is no dpkg-deb here to ask besides")
		return
	}
	if out, err := exec.Command("dpkg-deb", "--contents", name).CombinedOutput(); err != nil || !strings.Contains(string(out), "root/root") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := exec.Command("dpkg-deb", "--field", name, "Version").CombinedOutput(); err != nil || string(out) != "1.2.3~rc1\n" {
		t.Errorf("%v\n%s", err, out)
	}
}

// unar reads the members of an archive.
func unar(t *testing.T, b []byte) map[string][]byte {
	t.Helper()
	rest, ok := bytes.CutPrefix(b, []byte("!<arch>\n"))
	if !ok {
		t.Fatal("not an archive")
	}
	out := map[string][]byte{}
	var order []string
	for len(rest) > 0 {
		if len(rest) < 60 || string(rest[58:60]) != "`\n" {
			t.Fatalf("a header is %q", rest[:min(60, len(rest))])
		}
		name := strings.TrimSpace(string(rest[:16]))
		size, err := strconv.Atoi(strings.TrimSpace(string(rest[48:58])))
		if err != nil {
			t.Fatal(err)
		}
		out[name], order = rest[60:60+size], append(order, name)
		rest = rest[60+size+size%2:]
	}
	if want := []string{"debian-binary", "control.tar.gz", "data.tar.gz"}; !slices.Equal(order, want) {
		t.Errorf("the members are %v, want %v", order, want)
	}
	return out
}

func untar(t *testing.T, b []byte) map[string]file {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	out, folders := map[string]file{}, map[string]bool{"./": true, ".": true}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		} else if err != nil {
			t.Fatal(err)
		}
		if parent := filepath.Dir(strings.TrimSuffix(h.Name, "/")); !folders[parent] && !folders["./"+parent] {
			t.Errorf("%s comes before its folder", h.Name)
		}
		if h.Typeflag == tar.TypeDir {
			folders[strings.TrimSuffix(h.Name, "/")] = true
			continue
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if h.Uid != 0 || h.Gid != 0 || h.ModTime.Unix() != 1700000000 {
			t.Errorf("%s: %s", h.Name, fmt.Sprint(h.Uid, h.Gid, h.ModTime))
		}
		out[h.Name] = file{h.Name, h.Mode, data}
	}
}
