// Command deb makes the Debian package of the agent: its program, its units and its configuration.
// The same input makes the same bytes: times come from the commit, and owners are root.
//
// usage: go run ./hack/deb -binary bin/nephele-agent -arch amd64 -version 1.2.3 -time 1700000000
// -out dist
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

func main() {
	var p pack
	var unix int64
	var out string
	flag.StringVar(&p.binary, "binary", "bin/nephele-agent", "the program")
	flag.StringVar(&p.arch, "arch", "amd64", "the architecture, as Debian calls it")
	flag.StringVar(&p.version, "version", "", "the version")
	flag.StringVar(&p.units, "units", "packaging/agent", "folder of units, scripts and configuration")
	flag.Int64Var(&unix, "time", 0, "when the files were made, in seconds since 1970")
	flag.StringVar(&out, "out", "dist", "folder for the package")
	flag.Parse()
	p.time = time.Unix(unix, 0).UTC()
	name, err := p.write(out)
	if err != nil {
		fmt.Fprintln(os.Stderr, "making the package:", err)
		os.Exit(1)
	}
	fmt.Println(name)
}

// pack is what a package is made of.
type pack struct {
	binary, arch, version, units string
	time                         time.Time
}

// versionForm is what Debian takes for a version, without an epoch.
var versionForm = regexp.MustCompile(`^[0-9][A-Za-z0-9.+~-]*$`)

// file is a file of the package.
type file struct {
	name string
	mode int64
	data []byte
}

// write makes the package and returns its name.
func (p *pack) write(folder string) (string, error) {
	if !versionForm.MatchString(p.version) {
		return "", fmt.Errorf("version %q: want one that Debian takes, such as 1.2.3", p.version)
	}
	installed, err := p.read(map[string]file{
		p.binary: {name: "usr/bin/nephele-agent", mode: 0o755},
		filepath.Join(p.units, "nephele-agent.service"):      {name: "lib/systemd/system/nephele-agent.service", mode: 0o644},
		filepath.Join(p.units, "nephele-agent-boot.service"): {name: "lib/systemd/system/nephele-agent-boot.service", mode: 0o644},
		filepath.Join(p.units, "agent.yaml"):                 {name: "etc/nephele/agent.yaml", mode: 0o600},
	})
	if err != nil {
		return "", err
	}
	scripts, err := p.read(map[string]file{
		filepath.Join(p.units, "postinst"): {name: "postinst", mode: 0o755},
		filepath.Join(p.units, "prerm"):    {name: "prerm", mode: 0o755},
		filepath.Join(p.units, "postrm"):   {name: "postrm", mode: 0o755},
	})
	if err != nil {
		return "", err
	}
	var sums bytes.Buffer
	size := 0
	for _, f := range installed {
		size += len(f.data)
		sum := md5.Sum(f.data) // the format wants no other
		fmt.Fprintf(&sums, "%s  %s\n", hex.EncodeToString(sum[:]), f.name)
	}
	control := append(scripts,
		file{"conffiles", 0o644, []byte("/etc/nephele/agent.yaml\n")},
		file{"control", 0o644, fmt.Appendf(nil, `Package: nephele-agent
Version: %s
Architecture: %s
Maintainer: The Nephele authors <nephele-io@users.noreply.github.com>
Installed-Size: %d
Section: net
Priority: optional
Homepage: https://github.com/nephele-io/nephele
Description: network policies on hosts
 Enforces Antrea and Kubernetes network policies on this host, by nftables.
`, p.version, p.arch, (size+1023)/1024)},
		file{"md5sums", 0o644, sums.Bytes()})
	controlTar, err1 := p.tarball(control)
	dataTar, err2 := p.tarball(installed)
	if err := errors.Join(err1, err2); err != nil {
		return "", err
	}
	name := filepath.Join(folder, fmt.Sprintf("nephele-agent_%s_%s.deb", p.version, p.arch))
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	archive := p.ar(file{"debian-binary", 0o644, []byte("2.0\n")}, file{"control.tar.gz", 0o644, controlTar}, file{"data.tar.gz", 0o644, dataTar})
	return name, os.WriteFile(name, archive, 0o644)
}

// read reads files, sorted by their names in the package.
func (p *pack) read(from map[string]file) ([]file, error) {
	var out []file
	for source, f := range from {
		data, err := os.ReadFile(source)
		if err != nil {
			return nil, err
		}
		f.data = data
		out = append(out, f)
	}
	slices.SortFunc(out, func(a, b file) int { return strings.Compare(a.name, b.name) })
	return out, nil
}

// tarball packs files and the folders that they are in.
func (p *pack) tarball(files []file) ([]byte, error) {
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	w := tar.NewWriter(z)
	made := map[string]bool{".": true}
	var folders func(name string) error
	folders = func(name string) error {
		if made[name] {
			return nil
		}
		made[name] = true
		if err := folders(path.Dir(name)); err != nil {
			return err
		}
		return w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "./" + name + "/", Mode: 0o755, ModTime: p.time, Uname: "root", Gname: "root"})
	}
	for _, f := range files {
		if err := folders(path.Dir(f.name)); err != nil {
			return nil, err
		}
		h := &tar.Header{Typeflag: tar.TypeReg, Name: "./" + f.name, Mode: f.mode, Size: int64(len(f.data)), ModTime: p.time, Uname: "root", Gname: "root"}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// ar packs files as ar does.
func (p *pack) ar(files ...file) []byte {
	out := bytes.NewBufferString("!<arch>\n")
	for _, f := range files {
		fmt.Fprintf(out, "%-16s%-12d%-6d%-6d%-8o%-10d`\n", f.name, p.time.Unix(), 0, 0, f.mode|0o100000, len(f.data))
		out.Write(f.data)
		if len(f.data)%2 == 1 {
			out.WriteByte('\n')
		}
	}
	return out.Bytes()
}
