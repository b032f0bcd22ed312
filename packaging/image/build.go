package image

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Source is what to build.
type Source struct {
	// Root is the directory of the module, Package the main package in it.
	Root, Package string
	// Agent and Plugin are the main packages of the agent and of the CNI plugin, which Linux has
	// besides; empty for none.
	Agent, Plugin string
	// Stamp is the package whose variables stampedVersion and stampedRevision are set.
	Stamp string
}

// Build compiles a program for a platform: static, without the paths of this machine, so that the
// same source and release make the same bytes.
func (s Source) Build(ctx context.Context, r Release, goos, arch string) (Binary, error) {
	content, err := s.compile(ctx, r, s.Package, goos, arch)
	if err != nil {
		return Binary{}, err
	}
	b := Binary{OS: goos, Architecture: arch, Content: content}
	for _, more := range []struct {
		what string
		into *[]byte
	}{{s.Agent, &b.Agent}, {s.Plugin, &b.Plugin}} {
		if more.what == "" || goos != "linux" {
			continue
		}
		if *more.into, err = s.compile(ctx, r, more.what, goos, arch); err != nil {
			return Binary{}, err
		}
	}
	return b, nil
}

func (s Source) compile(ctx context.Context, r Release, what, goos, arch string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "nephele-build-")
	if err != nil {
		return nil, fmt.Errorf("build: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	out := filepath.Join(dir, "out")
	flags := fmt.Sprintf("-s -w -buildid= -X %s.stampedVersion=%s -X %s.stampedRevision=%s -X main.stampedVersion=%s -X main.stampedRevision=%s",
		s.Stamp, r.Version, s.Stamp, r.Revision, r.Version, r.Revision)
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-tags=grpcnotrace", "-buildvcs=false", "-ldflags", flags, "-o", out, what)
	cmd.Dir = s.Root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+arch, "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=", "GOWORK=off")
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("build %s for %s/%s: %w\n%s", what, goos, arch, err, said.String())
	}
	content, err := os.ReadFile(out)
	if err != nil {
		return nil, fmt.Errorf("build: %w", err)
	}
	return content, nil
}
