// Command release makes what is given to others, below dist/: the image, and with -archives the
// archives for every platform with their lists of modules, the charts, the agent's Debian packages,
// what has changed, what it was made of, checksums, and with a key their signatures.
//
// It owns the names of these files. It promises that the same commit and key make the same bytes,
// and that a file that could not be made ends it with exit code 1.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/nephele-io/nephele/packaging/image"
	"github.com/nephele-io/nephele/packaging/sign"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// job is one run.
type job struct {
	image.Release
	source image.Source
	out    string
	// built has the binaries by platform: each is built once.
	built map[string]image.Binary
	// key signs; nil for no signatures.
	key *sign.Key
	// index is the image, and digest its digest.
	index  v1.ImageIndex
	digest v1.Hash
}

func run(ctx context.Context) error {
	j := job{built: map[string]image.Binary{}}
	var unix int64
	var push, key string
	var archives bool
	j.source = image.Source{Package: "./cmd/nephele", Agent: "./cmd/nephele-agent", Plugin: "./cmd/nephele-cni", Stamp: "github.com/nephele-io/nephele/internal/cli"}
	flag.StringVar(&j.source.Root, "root", "..", "root of the repository")
	flag.StringVar(&j.Version, "version", "", "version, such as v1.2.3")
	flag.StringVar(&j.Revision, "revision", "", "commit")
	flag.Int64Var(&unix, "time", 0, "time of the commit, in seconds since 1970")
	flag.StringVar(&j.out, "out", "../dist", "where to put the files")
	flag.StringVar(&push, "push", "", "REGISTRY/NAME:TAG to push the image to, with the credentials that docker login has left; empty: nowhere")
	flag.StringVar(&key, "key", "", "private key that signs: of cosign, with its password in COSIGN_PASSWORD, or an ECDSA key in PEM; empty: nothing is signed")
	flag.BoolVar(&archives, "archives", false, "make archives, charts, packages and checksums too")
	flag.Parse()
	if !strings.HasPrefix(j.Version, "v") || j.Revision == "" {
		return errors.New("-version (v1.2.3) and -revision: want both")
	}
	j.Time = time.Unix(unix, 0).UTC()
	if key != "" {
		text, err := os.ReadFile(key)
		if err == nil {
			j.key, err = sign.ParseKey(text, []byte(os.Getenv("COSIGN_PASSWORD")))
		}
		if err != nil {
			return fmt.Errorf("-key %s: %w", key, err)
		}
	}
	if err := os.MkdirAll(j.out, 0o755); err != nil {
		return fmt.Errorf("make %s: %w", j.out, err)
	}
	if archives {
		if _, err := j.ready(); err != nil {
			return err
		}
	}
	if err := j.image(ctx, push); err != nil || !archives {
		return err
	}
	return j.archives(ctx)
}

func (j *job) binary(ctx context.Context, goos, arch string) (image.Binary, error) {
	if b, ok := j.built[goos+"/"+arch]; ok {
		return b, nil
	}
	fmt.Printf("building for %s/%s\n", goos, arch)
	b, err := j.source.Build(ctx, j.Release, goos, arch)
	if err == nil {
		j.built[goos+"/"+arch] = b
	}
	return b, err
}

// image writes the image as an OCI layout, and pushes it if it is to be.
func (j *job) image(ctx context.Context, push string) error {
	var binaries []image.Binary
	for _, arch := range []string{"amd64", "arm64"} {
		b, err := j.binary(ctx, "linux", arch)
		if err != nil {
			return err
		}
		binaries = append(binaries, b)
	}
	index, err := image.Index(j.Release, binaries)
	if err != nil {
		return err
	}
	dir := filepath.Join(j.out, "image")
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove the former image: %w", err)
	}
	if _, err := layout.Write(dir, index); err != nil {
		return fmt.Errorf("write %s: %w", dir, err)
	}
	digest, err := index.Digest()
	if err != nil {
		return fmt.Errorf("digest: %w", err)
	}
	j.index, j.digest = index, digest
	fmt.Printf("%s  %s (OCI layout, linux/amd64 and linux/arm64)\n", digest, dir)
	if push == "" {
		return nil
	}
	to, err := name.ParseReference(push, name.StrictValidation)
	if err != nil {
		return fmt.Errorf("-push: %w", err)
	}
	if err := remote.WriteIndex(to, index, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return fmt.Errorf("push %s: %w", push, err)
	}
	fmt.Printf("pushed %s@%s\n", to.Context().Name(), digest)
	if j.key == nil {
		return nil
	}
	if err := j.key.Image(ctx, to.Context(), digest, remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return fmt.Errorf("sign the image: %w", err)
	}
	fmt.Printf("signed %s@%s\n", to.Context().Name(), digest)
	return nil
}

// archives writes everything but the image.
func (j *job) archives(ctx context.Context) error {
	files := map[string][]byte{}
	read := func(path string) ([]byte, error) { return os.ReadFile(filepath.Join(j.source.Root, path)) }
	license, err1 := read("LICENSE")
	readme, err2 := read("README.md")
	if err := errors.Join(err1, err2); err != nil {
		return fmt.Errorf("read: %w", err)
	}
	for _, goos := range []string{"linux", "darwin"} {
		for _, arch := range []string{"amd64", "arm64"} {
			b, err := j.binary(ctx, goos, arch)
			if err != nil {
				return err
			}
			stem := fmt.Sprintf("nephele_%s_%s_%s", strings.TrimPrefix(j.Version, "v"), goos, arch)
			content, programs := map[string][]byte{"nephele": b.Content, "LICENSE": license, "README.md": readme}, []string{"nephele"}
			if len(b.Agent) > 0 {
				content["nephele-agent"], programs = b.Agent, append(programs, "nephele-agent")
			}
			files[stem+".tar.gz"], err1 = image.Archive(j.Time, content, programs...)
			files[stem+".cdx.json"], err2 = image.BillOfMaterials(j.Release, b.Content)
			if err := errors.Join(err1, err2); err != nil {
				return fmt.Errorf("%s: %w", stem, err)
			}
			if goos == "linux" {
				if err := j.debian(ctx, b, files); err != nil {
					return err
				}
			}
		}
	}
	for _, chart := range []string{"nephele", "nephele-crds"} {
		raw, err := image.Chart(j.Release, filepath.Join(j.source.Root, "charts", chart))
		if err != nil {
			return err
		}
		files[fmt.Sprintf("%s-%s.tgz", chart, strings.TrimPrefix(j.Version, "v"))] = raw
	}
	if err := j.describe(ctx, files); err != nil {
		return err
	}
	if err := j.prove(files); err != nil {
		return err
	}
	for file, raw := range files {
		if err := os.WriteFile(filepath.Join(j.out, file), raw, 0o644); err != nil {
			return fmt.Errorf("write: %w", err)
		}
	}
	fmt.Printf("%d files below %s, with SHA256SUMS\n", len(files), j.out)
	if j.key == nil {
		fmt.Println("NOT SIGNED: its origin cannot be verified; give the key that signs it")
	}
	return nil
}

// debian adds the agent's package for one architecture.
func (j *job) debian(ctx context.Context, b image.Binary, files map[string][]byte) error {
	dir, err := os.MkdirTemp("", "nephele-deb-")
	if err != nil {
		return fmt.Errorf("making the Debian package: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	program := filepath.Join(dir, "nephele-agent")
	if err := os.WriteFile(program, b.Agent, 0o755); err != nil {
		return fmt.Errorf("making the Debian package: %w", err)
	}
	// "-" separates the revision of a Debian package; before it, "~" is what comes earlier.
	version := strings.ReplaceAll(strings.TrimPrefix(j.Version, "v"), "-", "~")
	cmd := exec.CommandContext(ctx, "go", "run", "./hack/deb", "-binary", program, "-arch", b.Architecture, "-version", version, "-time", fmt.Sprint(j.Time.Unix()), "-out", dir)
	cmd.Dir = j.source.Root
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("making the Debian package for %s: %w", b.Architecture, err)
	}
	made, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	if err != nil || len(made) != 1 {
		return fmt.Errorf("making the Debian package for %s: %d were made (%w)", b.Architecture, len(made), err)
	}
	raw, err := os.ReadFile(made[0])
	if err != nil {
		return fmt.Errorf("making the Debian package: %w", err)
	}
	files[filepath.Base(made[0])] = raw
	return nil
}
