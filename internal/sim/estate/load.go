package estate

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/nephele-io/nephele/internal/platform/unicodetext"
	"github.com/nephele-io/nephele/internal/sim/aws"
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
func HybridCloud() (aws.State, Report, error) {
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
func Load(name string) (aws.State, Report, error) {
	info, err := os.Stat(name)
	if err != nil {
		return aws.State{}, Report{Source: name}, fmt.Errorf("load an estate: %w", err)
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
func LoadFS(fsys fs.FS, name string) (aws.State, Report, error) { return load(fsys, name, "") }

// load reads name below fsys, which messages call root.
func load(fsys fs.FS, name, root string) (aws.State, Report, error) {
	l := &loader{fsys: fsys, root: root, report: Report{Source: name, Renamed: map[string]string{}}}
	s, err := l.load(name)
	if err != nil {
		return aws.State{}, l.report, err
	}
	if len(s.Credentials) == 0 {
		s.Credentials = defaultKeys(s.Accounts)
	}
	if err := s.Check(); err != nil {
		return aws.State{}, l.report, fmt.Errorf("%s: the estate is not consistent: %w", l.path(name), err)
	}
	return s, l.report, nil
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
	fsys   fs.FS
	root   string // where fsys is, for messages
	report Report
}

// path is the name of a file as messages spell it.
func (l *loader) path(name string) string { return path.Join(l.root, name) }

func (l *loader) load(name string) (aws.State, error) {
	info, err := fs.Stat(l.fsys, name)
	if err != nil {
		return aws.State{}, fmt.Errorf("load an estate: %w", err)
	}
	if info.IsDir() {
		return l.dir(name)
	}
	data, err := l.read(name)
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

func (l *loader) read(name string) ([]byte, error) {
	data, err := fs.ReadFile(l.fsys, name)
	if err != nil {
		return nil, fmt.Errorf("load an estate: %w", err)
	}
	if !slices.Contains(l.report.Files, name) {
		l.report.Files = append(l.report.Files, name)
	}
	text, err := unicodetext.Decode(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", l.path(name), err)
	}
	return text, nil
}

// jsonFile reads one file that is a whole description: a collector dump or a saved state.
func (l *loader) jsonFile(name string, data []byte) (aws.State, error) {
	members, err := membersOf(l.path(name), data)
	if err != nil {
		return aws.State{}, err
	}
	switch {
	case members["security_groups"] != nil && members["vpcs"] != nil:
		l.report.Format = "collector dump"
		return l.collector(name, members)
	case members["version"] != nil && members["accounts"] != nil:
		l.report.Format = "saved state"
		var s aws.State
		if err := decode(l.path(name), "", data, &s); err != nil {
			return aws.State{}, err
		}
		return s, nil
	}
	return aws.State{}, fmt.Errorf(
		"%s: not a description of an account: expected a collector dump (vpcs, security_groups, ...) or a saved state (version, accounts), found %s",
		l.path(name),
		listMembers(members),
	)
}

// dir reads a folder of YAML files or of describe answers.
func (l *loader) dir(name string) (aws.State, error) {
	entries, err := fs.ReadDir(l.fsys, name)
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
		case isRegional(e.Name()):
			answers = true
		}
	}
	if len(yamls) > 0 && !answers {
		return l.yamlFiles(yamls)
	}
	l.report.Format = "describe answers"
	if answers {
		folders = []string{name}
	}
	var regions []rawRegion
	accounts := map[string][]rawRegion{}
	for _, f := range folders {
		r, found, err := l.region(f)
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
		return aws.State{}, fmt.Errorf("%s: expected either one folder for each region or one for each account, with one for each region in it; found both", l.path(name))
	case len(accounts) > 0:
		return l.accounts(accounts)
	case len(regions) == 0:
		return aws.State{}, fmt.Errorf(
			"%s: no description of an account here: expected region folders with describe answers (Vpcs.json or ec2-describe-vpcs.json, ...) or estate YAML files",
			l.path(name),
		)
	}
	return l.convert(regions, "")
}

// regionsIn reads the region folders of a folder.
func (l *loader) regionsIn(folder string) ([]rawRegion, error) {
	entries, err := fs.ReadDir(l.fsys, folder)
	if err != nil {
		return nil, fmt.Errorf("load an estate: %w", err)
	}
	var out []rawRegion
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		r, found, err := l.region(path.Join(folder, e.Name()))
		if err != nil {
			return nil, err
		}
		if found {
			out = append(out, r)
		}
	}
	return out, nil
}

// membersOf decodes a JSON object into its members.
func membersOf(name string, data []byte) (map[string]json.RawMessage, error) {
	if text := bytes.TrimSpace(data); len(text) > 0 && text[0] == '[' {
		return nil, fmt.Errorf("%s: a list, as --query of aws makes: expected the whole answer, an object such as {\"Reservations\": [...]}", name)
	}
	var members map[string]json.RawMessage
	if err := decode(name, "", data, &members); err != nil {
		return nil, err
	}
	return members, nil
}

// decode decodes JSON and says in errors where in the file and in which field the fault is.
func decode(file, member string, data []byte, into any) error {
	err := json.Unmarshal(data, into)
	if err == nil {
		return nil
	}
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("%s: line %d: not JSON: %w", file, line(data, syntax.Offset), err)
	case errors.As(err, &kind):
		field := strings.Trim(member+"."+kind.Field, ".")
		if field == "" {
			field = "the whole file"
		}
		return fmt.Errorf("%s: line %d: %s: expected %s, found a %s", file, line(data, kind.Offset), field, plain(kind.Type.String()), kind.Value)
	case member != "":
		return fmt.Errorf("%s: %s: %w", file, member, err)
	}
	return fmt.Errorf("%s: %w", file, err)
}

// plain turns a Go type into words.
func plain(goType string) string {
	switch {
	case strings.HasPrefix(goType, "[]"):
		return "a list"
	case strings.HasPrefix(goType, "int"), strings.HasPrefix(goType, "*int"):
		return "a number"
	case strings.HasPrefix(goType, "map"), strings.Contains(goType, "."), strings.HasPrefix(goType, "struct"):
		return "an object"
	}
	return "a " + goType
}

func line(data []byte, offset int64) int {
	return 1 + bytes.Count(data[:min(int(offset), len(data))], []byte("\n"))
}

func listMembers(members map[string]json.RawMessage) string {
	if len(members) == 0 {
		return "an empty object"
	}
	var names []string
	for m := range members {
		names = append(names, m)
	}
	slices.Sort(names)
	if len(names) > 8 {
		names = append(names[:8], "...")
	}
	return strings.Join(names, ", ")
}
