package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/nephele-io/nephele/packaging/advisory"
	"github.com/nephele-io/nephele/packaging/image"
	"github.com/nephele-io/nephele/packaging/licence"
	"github.com/nephele-io/nephele/packaging/sign"
)

// repository is where the source is.
const repository = "https://github.com/nephele-io/nephele"

// ready returns what has changed, or why this release cannot be made. It is asked before anything
// is pushed.
func (j *job) ready() (string, error) {
	changes, err := os.ReadFile(filepath.Join(j.source.Root, "CHANGELOG.md"))
	if err != nil {
		return "", fmt.Errorf("read what has changed: %w", err)
	}
	text, err := section(string(changes), j.Version)
	if err != nil {
		return "", err
	}
	if err := advisory.Check(os.DirFS(filepath.Join(j.source.Root, "advisories"))); err != nil {
		return "", fmt.Errorf("our advisories: %w", err)
	}
	return text, nil
}

// describe adds what is said about the release: what has changed, the licences of what is in it,
// our advisories, and the script that installs it.
func (j *job) describe(ctx context.Context, files map[string][]byte) error {
	text, err := j.ready()
	if err != nil {
		return err
	}
	files["CHANGES.md"] = []byte(text)
	modules, err := licence.Modules(ctx, j.source.Root, ".")
	if err != nil {
		return err
	}
	files["LICENCES.txt"] = []byte(licence.Text(modules))
	if files["install.sh"], err = os.ReadFile(filepath.Join(j.source.Root, "packaging/release/install.sh")); err != nil {
		return fmt.Errorf("read the script that installs: %w", err)
	}
	for _, kind := range []string{"osv", "vex"} {
		found, err := filepath.Glob(filepath.Join(j.source.Root, "advisories", kind, "*.json"))
		if err != nil {
			return err
		}
		for _, file := range found {
			if files[filepath.Base(file)], err = os.ReadFile(file); err != nil {
				return fmt.Errorf("read an advisory: %w", err)
			}
		}
	}
	if j.index == nil {
		return errors.New("there is no image")
	}
	files[fmt.Sprintf("nephele-image_%s.oci.tar", strings.TrimPrefix(j.Version, "v"))], err = image.Layout(j.Time, filepath.Join(j.out, "image"))
	return err
}

// released is the form of the version of a release; others are builds of a commit.
var released = regexp.MustCompile(`^v\d+\.\d+\.\d+$`)

// section is what CHANGELOG.md says of a version. A build of a commit has what is not released yet.
func section(changes, version string) (string, error) {
	head := "Unreleased"
	if released.MatchString(version) {
		head = version
	}
	for part := range strings.SplitSeq("\n"+changes, "\n## ") {
		title, text, _ := strings.Cut(part, "\n")
		if name, _, _ := strings.Cut(title, " "); name == head {
			return "# " + strings.Replace(title, "Unreleased", version, 1) + "\n\n" + strings.TrimSpace(text) + "\n", nil
		}
	}
	return "", fmt.Errorf("CHANGELOG.md has no section %q: write what %s brings before it is released", head, version)
}

// prove adds what proves the files: the statement of what they were made of, checksums, and with a
// key the signatures of both.
func (j *job) prove(files map[string][]byte) error {
	subjects := map[string]string{"nephele": j.digest.Hex} // the image
	for line := range strings.Lines(string(image.Checksums(files))) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		subjects[name] = sum
	}
	statement, err := sign.Provenance(sign.Source{Repository: repository, Revision: j.Revision, Version: j.Version}, subjects)
	if err != nil {
		return fmt.Errorf("provenance: %w", err)
	}
	if j.key == nil {
		files["provenance.json"] = append(statement, '\n')
		files["SHA256SUMS"] = image.Checksums(files)
		return nil
	}
	var errs [3]error
	var signature []byte
	files["provenance.intoto.jsonl"], errs[0] = j.key.Statement(statement)
	files["SHA256SUMS"] = image.Checksums(files)
	signature, errs[1] = j.key.Blob(files["SHA256SUMS"])
	files["SHA256SUMS.sig"] = []byte(sign.Base64(signature) + "\n")
	// For comparing with the one that people have from elsewhere.
	files["nephele.pub"], errs[2] = j.key.Public()
	if err := errors.Join(errs[:]...); err != nil {
		return fmt.Errorf("sign: %w", err)
	}
	return nil
}
