package estate

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/estate/dump"
	"github.com/nephele-io/nephele/internal/sim/estate/source"
)

// The key that every account gets whose description names none.
const (
	DefaultAccessKeyID = "AKIANEPHELESIMULATOR"
	DefaultSecret      = "nephele/simulator+default+key/not/secret"
)

//go:embed data/hybrid-cloud
var embedded embed.FS

// HybridCloud is the account that the demonstration uses: a real one, published by the Batfish
// project.
func HybridCloud() (aws.State, source.Report, error) {
	return LoadFS(embedded, "data/hybrid-cloud")
}

// Load reads a file or a folder:
//
//   - a folder with describe answers as JSON, one file per call, in one folder per region (or one
//     such region folder): files named after the member they hold (Vpcs.json, Reservations.json,
//     ...) or after the command (ec2-describe-vpcs.json, describe-instances.json, ...)
//   - such region folders in one folder per account
//   - a collector dump: one JSON file with the members vpcs, subnets, instances and security_groups
//   - estate YAML, a file (.yaml, .yml) or a folder of them
//   - a state saved by aws.Save
//
// The first account of a description without credentials gets DefaultAccessKeyID and DefaultSecret,
// the second one DefaultAccessKeyID with a 2 at its end, and so on.
func Load(name string) (aws.State, source.Report, error) {
	info, err := os.Stat(name)
	if err != nil {
		return aws.State{}, source.Report{Source: name}, fmt.Errorf("load an estate: %w", err)
	}
	dir, base := filepath.Split(filepath.Clean(name))
	if info.IsDir() {
		dir, base = name, "."
	}
	if dir == "" {
		dir = "."
	}
	s, report, err := load(os.DirFS(dir), base, dir)
	report.Source = name
	return s, report, err
}

// LoadFS is Load for a file or folder of a file system.
func LoadFS(fsys fs.FS, name string) (aws.State, source.Report, error) { return load(fsys, name, "") }

// load reads name below fsys, which messages call root.
func load(fsys fs.FS, name, root string) (aws.State, source.Report, error) {
	l := loader{&source.Source{FS: fsys, Root: root, Report: source.Report{Source: name, Renamed: map[string]string{}}}}
	s, err := l.load(name)
	if err != nil {
		return aws.State{}, l.Report, err
	}
	if len(s.Credentials) == 0 {
		s.Credentials = defaultKeys(s.Accounts)
	}
	if err := s.Check(); err != nil {
		return aws.State{}, l.Report, fmt.Errorf("%s: the estate is not consistent: %w", l.Path(name), err)
	}
	return s, l.Report, nil
}

// defaultKeys are a key for each account; those after the first are numbered.
func defaultKeys(accounts []aws.Account) []aws.Credential {
	var out []aws.Credential
	for i, a := range accounts {
		id := DefaultAccessKeyID
		if i > 0 {
			id += strconv.Itoa(i + 1)
		}
		out = append(out, aws.Credential{AccessKeyID: id, Secret: DefaultSecret, Account: a.ID})
	}
	return out
}

// loader is one run of Load.
type loader struct {
	*source.Source
}

func (l loader) load(name string) (aws.State, error) {
	info, err := fs.Stat(l.FS, name)
	if err != nil {
		return aws.State{}, fmt.Errorf("load an estate: %w", err)
	}
	if info.IsDir() {
		return l.dir(name)
	}
	data, err := l.Read(name)
	if err != nil {
		return aws.State{}, err
	}
	if isYAML(name) {
		return l.yamlFiles([]string{name})
	}
	return l.jsonFile(name, data)
}

func isYAML(name string) bool {
	return strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml")
}

// jsonFile reads one file that is a whole description: a collector dump or a saved state.
func (l loader) jsonFile(name string, data []byte) (aws.State, error) {
	members, err := source.Members(l.Path(name), data)
	if err != nil {
		return aws.State{}, err
	}
	switch {
	case members["security_groups"] != nil && members["vpcs"] != nil:
		l.Report.Format = "collector dump"
		return dump.Collector(l.Source, name, members)
	case members["version"] != nil && members["accounts"] != nil:
		l.Report.Format = "saved state"
		var s aws.State
		if err := source.Decode(l.Path(name), "", data, &s); err != nil {
			return aws.State{}, err
		}
		return s, nil
	}
	return aws.State{}, fmt.Errorf(
		"%s: not a description of an account: expected a collector dump (vpcs, security_groups, ...) or a saved state (version, accounts), found %s",
		l.Path(name),
		source.List(members),
	)
}

// dir reads a folder of YAML files or of describe answers.
func (l loader) dir(name string) (aws.State, error) {
	entries, err := fs.ReadDir(l.FS, name)
	if err != nil {
		return aws.State{}, fmt.Errorf("load an estate: %w", err)
	}
	var yamls, folders []string
	answers := false
	for _, e := range entries {
		full := path.Join(name, e.Name())
		switch {
		case e.IsDir():
			folders = append(folders, full)
		case isYAML(e.Name()):
			yamls = append(yamls, full)
		case dump.IsAnswer(e.Name()):
			answers = true
		}
	}
	if len(yamls) > 0 && !answers {
		return l.yamlFiles(yamls)
	}
	l.Report.Format = "describe answers"
	if answers {
		folders = []string{name}
	}
	var regions []dump.Region
	accounts := map[string][]dump.Region{}
	for _, f := range folders {
		r, found, err := dump.ReadRegion(l.Source, f)
		if err != nil {
			return aws.State{}, err
		}
		if found {
			regions = append(regions, r)
			continue
		}
		inside, err := l.regionsIn(f)
		if err != nil {
			return aws.State{}, err
		}
		if len(inside) > 0 {
			accounts[path.Base(f)] = inside
		}
	}
	switch {
	case len(regions) > 0 && len(accounts) > 0:
		return aws.State{}, fmt.Errorf("%s: expected either one folder for each region or one for each account, with one for each region in it; found both", l.Path(name))
	case len(accounts) > 0:
		return dump.Accounts(l.Source, accounts)
	case len(regions) == 0:
		return aws.State{}, fmt.Errorf(
			"%s: no description of an account here: expected region folders with describe answers (Vpcs.json or ec2-describe-vpcs.json, ...) or estate YAML files",
			l.Path(name),
		)
	}
	return dump.Convert(l.Source, regions, "")
}

// regionsIn reads the region folders of a folder.
func (l loader) regionsIn(folder string) ([]dump.Region, error) {
	entries, err := fs.ReadDir(l.FS, folder)
	if err != nil {
		return nil, fmt.Errorf("load an estate: %w", err)
	}
	var out []dump.Region
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		r, found, err := dump.ReadRegion(l.Source, path.Join(folder, e.Name()))
		if err != nil {
			return nil, err
		}
		if found {
			out = append(out, r)
		}
	}
	return out, nil
}
