package cluster

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// sources are the packages that are built, by the name of the program. Versions are the versions of
// go.mod.
var sources = map[string]string{
	"etcd":                    "go.etcd.io/etcd/server/v3",
	"kube-apiserver":          "k8s.io/kubernetes/cmd/kube-apiserver",
	"kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
	"kube-scheduler":          "k8s.io/kubernetes/cmd/kube-scheduler",
	"kube-proxy":              "k8s.io/kubernetes/cmd/kube-proxy",
	"kubelet":                 "k8s.io/kubernetes/cmd/kubelet",
	agnhost:                   "k8s.io/kubernetes/test/images/agnhost",
	boom:                      "k8s.io/kubernetes/test/images/" + boom,
}

// coreDNS is what answers Pods about names. It is a module of its own: what it is made of is not
// what Kubernetes is made of.
const coreDNS = "github.com/coredns/coredns@v1.12.4"

// agnhost is the program of upstream's test Pods. It runs without a C library beside it.
const agnhost = "agnhost"

// boom is the program of the test Pod that sends what conntrack takes for invalid.
const boom = "regression-issue-74839"

// debian are the packages that the rest is unpacked from, with the libraries that they need beyond
// the C library.
var debian = []string{
	"containerd", "runc", "containernetworking-plugins", "nftables", "iptables",
	"libseccomp2", "libnftables1", "libnftnl11", "libmnl0", "libjansson4", "libxtables12", "libip4tc2", "libip6tc2",
	"libnetfilter-conntrack3", "libnfnetlink0", "libedit2", "libbsd0", "libmd0", "libtinfo6", "libgmp10",
}

// inPods are the packages whose programs test Pods find beside agnhost, with all that they depend
// on.
var inPods = []string{"busybox-static", "curl", "dash", "netcat-openbsd", "wget"}

// Tools are the programs of a cluster that are not Nephele's. It does not change.
type Tools struct {
	// Kubernetes is the directory of the programs that were built.
	Kubernetes string
	// Debian is the directory that packages were unpacked into, Pods the one with those for test
	// Pods.
	Debian, Pods string
	// Porter is the directory of the certificate and key with which agnhost answers by TLS.
	Porter string
	// Version is that of Kubernetes, such as v1.36.3.
	Version string
}

// Find returns the tools in the directory cache, and puts there what is missing: the first time it
// compiles Kubernetes, which takes minutes on a quiet machine, and has apt-get fetch packages of
// Debian or Ubuntu. Where programs come from is a matter of GOPROXY and of apt's sources.
// Directories are named by versions, so a newer one is built beside the old one.
func Find(ctx context.Context, cache string, say func(format string, args ...any)) (Tools, error) {
	version, err := output(ctx, "", "go", "list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes")
	if err != nil {
		return Tools{}, err
	}
	t := Tools{Kubernetes: filepath.Join(cache, "kubernetes-"+version), Version: version}
	if err := os.MkdirAll(t.Kubernetes, 0o755); err != nil {
		return Tools{}, err
	}
	source, err := output(ctx, "", "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes")
	if err != nil {
		return Tools{}, err
	}
	t.Porter = filepath.Join(source, "test/images/agnhost/porter")
	for name, pkg := range sources {
		if err := t.build(ctx, name, pkg, say); err != nil {
			return Tools{}, err
		}
	}
	if err := t.install(ctx, "coredns", coreDNS, say); err != nil {
		return Tools{}, err
	}
	depends, err := output(ctx, "", "apt-cache", append([]string{"depends", "--recurse", "--no-recommends", "--no-suggests", "--no-conflicts", "--no-breaks", "--no-replaces", "--no-enhances"}, inPods...)...)
	if err != nil {
		return Tools{}, fmt.Errorf("packages of Debian or Ubuntu are needed (apt-get update?): %w", err)
	}
	var all []string
	for line := range strings.Lines(depends) {
		if name := strings.TrimSpace(line); line[0] != ' ' && !strings.ContainsAny(name, "<: ") {
			all = append(all, name)
		}
	}
	if t.Pods, err = unpack(ctx, cache, "pods", all, nil, say); err != nil {
		return Tools{}, err
	}
	// The package manager would make these links.
	links := map[string]string{}
	for _, name := range []string{"iptables", "iptables-save", "iptables-restore", "ip6tables", "ip6tables-save", "ip6tables-restore"} {
		links["usr/sbin/"+name] = "xtables-nft-multi"
	}
	t.Debian, err = unpack(ctx, cache, "debian", debian, links, say)
	return t, err
}

// install compiles a program of a module of its own unless it is there.
func (t Tools) install(ctx context.Context, name, source string, say func(format string, args ...any)) error {
	path := filepath.Join(t.Kubernetes, name)
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	say("building %s", source)
	cmd := exec.CommandContext(ctx, "go", "install", "-ldflags", "-s -w", source)
	dir := path + ".new"
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOBIN="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", name, err, out)
	}
	return errors.Join(os.Rename(filepath.Join(dir, name), path), os.RemoveAll(dir))
}

// build compiles one program unless it is there. A build that is cut short leaves nothing.
func (t Tools) build(ctx context.Context, name, pkg string, say func(format string, args ...any)) error {
	path := filepath.Join(t.Kubernetes, name)
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	say("building %s %s: the first time takes minutes", name, t.Version)
	major, minor, _ := strings.Cut(strings.TrimPrefix(t.Version, "v"), ".")
	minor, _, _ = strings.Cut(minor, ".")
	const at = " -X k8s.io/component-base/version."
	cmd := exec.CommandContext(ctx, "go", "build", "-ldflags", "-s -w"+at+"gitVersion="+t.Version+at+"gitMajor="+major+at+"gitMinor="+minor, "-o", path+".new", pkg)
	cmd.Env = os.Environ()
	if name == agnhost || name == boom {
		cmd.Env = append(cmd.Env, "CGO_ENABLED=0")
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", name, err, out)
	}
	return os.Rename(path+".new", path)
}

// unpack fetches and unpacks packages below cache unless they are there, and makes links. It
// returns the directory.
func unpack(ctx context.Context, cache, name string, packages []string, links map[string]string, say func(format string, args ...any)) (to string, err error) {
	uris, err := output(ctx, "", "apt-get", append([]string{"download", "--print-uris"}, packages...)...)
	if err != nil {
		return "", fmt.Errorf("packages of Debian or Ubuntu are needed (apt-get update?): %w", err)
	}
	to = filepath.Join(cache, fmt.Sprintf("%s-%.16x", name, sha256.Sum256([]byte(uris))))
	if _, err := os.Stat(to); err == nil {
		return to, nil
	}
	say("fetching packages: %s", strings.Join(packages, " "))
	dir, err := os.MkdirTemp(cache, "fetching-")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if _, err := output(ctx, dir, "apt-get", append([]string{"-o", "APT::Sandbox::User=root", "download"}, packages...)...); err != nil {
		return "", err
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	if err != nil {
		return "", err
	}
	root := filepath.Join(dir, "root")
	for _, f := range files {
		if _, err := output(ctx, dir, "dpkg-deb", "-x", f, root); err != nil {
			return "", err
		}
	}
	for path, target := range links {
		if err := os.Symlink(target, filepath.Join(root, path)); err != nil {
			return "", err
		}
	}
	return to, os.Rename(root, to)
}

// Path returns where the program is.
func (t Tools) Path(name string) string {
	for _, dir := range []string{t.Kubernetes, filepath.Join(t.Debian, "usr/bin"), filepath.Join(t.Debian, "usr/sbin")} {
		if p := filepath.Join(dir, name); exists(p) {
			return p
		}
	}
	return name
}

// env is the environment in which they find one another and their libraries.
func (t Tools) env() []string {
	libraries, _ := filepath.Glob(filepath.Join(t.Debian, "usr/lib/*-linux-gnu*")) // The pattern is well formed.
	older, _ := filepath.Glob(filepath.Join(t.Debian, "lib/*-linux-gnu*"))
	libraries = append(libraries, older...)
	env := append(os.Environ(),
		"PATH="+strings.Join([]string{filepath.Join(t.Debian, "usr/sbin"), filepath.Join(t.Debian, "usr/bin"), os.Getenv("PATH")}, ":"),
		"LD_LIBRARY_PATH="+strings.Join(libraries, ":"))
	for _, l := range libraries {
		if x := filepath.Join(l, "xtables"); exists(x) {
			env = append(env, "XTABLES_LIBDIR="+x)
		}
	}
	return env
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// output runs a program to its end and returns what it wrote, without the last line break.
func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(stdout.String()), nil
}
