// Package advisory checks what we publish about vulnerabilities: advisories in the form of OSV, and
// statements in that of OpenVEX on whether advisories of others concern us.
//
// It owns what of both forms we use, which is stricter than they are. It promises that a file that
// passes can be read by the tools that read these forms. There may be no file at all: then nothing
// was found and nothing is said. It is safe for concurrent use.
package advisory

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
)

// module is what our advisories are about.
const module = "github.com/nephele-io/nephele"

// osv is what of an advisory must be there: https://ossf.github.io/osv-schema.
type osv struct {
	SchemaVersion string    `json:"schema_version"`
	ID            string    `json:"id"`
	Modified      time.Time `json:"modified"`
	Published     time.Time `json:"published"`
	Withdrawn     time.Time `json:"withdrawn,omitzero"`
	Aliases       []string  `json:"aliases,omitempty"`
	Summary       string    `json:"summary"`
	Details       string    `json:"details"`
	Severity      []struct {
		Type  string `json:"type"`
		Score string `json:"score"`
	} `json:"severity"`
	Affected []struct {
		Package struct {
			Ecosystem string `json:"ecosystem"`
			Name      string `json:"name"`
		} `json:"package"`
		Ranges []struct {
			Type   string              `json:"type"`
			Events []map[string]string `json:"events"`
		} `json:"ranges"`
	} `json:"affected"`
	References []struct {
		Type string `json:"type"`
		URL  string `json:"url"`
	} `json:"references"`
	Credits []struct {
		Name    string   `json:"name"`
		Contact []string `json:"contact,omitempty"`
		Type    string   `json:"type,omitempty"`
	} `json:"credits,omitempty"`
}

// vex is what of a document of OpenVEX must be there: https://openvex.dev/ns/v0.2.0.
type vex struct {
	Context    string    `json:"@context"`
	ID         string    `json:"@id"`
	Author     string    `json:"author"`
	Role       string    `json:"role,omitempty"`
	Timestamp  time.Time `json:"timestamp"`
	Updated    time.Time `json:"last_updated,omitzero"`
	Version    int       `json:"version"`
	Statements []struct {
		Vulnerability struct {
			Name    string   `json:"name"`
			Aliases []string `json:"aliases,omitempty"`
		} `json:"vulnerability"`
		Products []struct {
			ID string `json:"@id"`
		} `json:"products"`
		Status          string    `json:"status"`
		Justification   string    `json:"justification,omitempty"`
		ImpactStatement string    `json:"impact_statement,omitempty"`
		ActionStatement string    `json:"action_statement,omitempty"`
		Timestamp       time.Time `json:"timestamp,omitzero"`
	} `json:"statements"`
}

var (
	idForm    = regexp.MustCompile(`^NEPHELE-\d{4}-\d{3,}$`)
	numberOf  = regexp.MustCompile(`^(0|\d+\.\d+\.\d+)$`)
	statuses  = []string{"not_affected", "affected", "fixed", "under_investigation"}
	reasons   = []string{"component_not_present", "vulnerable_code_not_present", "vulnerable_code_not_in_execute_path", "vulnerable_code_cannot_be_controlled_by_adversary", "inline_mitigations_already_exist"}
	knownRefs = []string{"ADVISORY", "ARTICLE", "REPORT", "FIX", "WEB"}
)

// Check looks at all files of a folder: osv/ID.json and vex/NAME.json.
func Check(dir fs.FS) error {
	var errs []error
	err := fs.WalkDir(dir, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || path.Ext(name) != ".json" {
			return err
		}
		raw, err := fs.ReadFile(dir, name)
		if err != nil {
			return err
		}
		switch path.Dir(name) {
		case "osv":
			err = checkOSV(raw, strings.TrimSuffix(path.Base(name), ".json"))
		case "vex":
			err = checkVEX(raw)
		default:
			err = errors.New("want it in osv/ or vex/")
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
		return nil
	})
	return errors.Join(append(errs, err)...)
}

// Stated are the vulnerabilities, by all their names, that statements below vex/ are about.
func Stated(dir fs.FS) (map[string]bool, error) {
	files, err := fs.Glob(dir, "vex/*.json")
	if err != nil {
		return nil, err
	}
	out := map[string]bool{}
	for _, name := range files {
		raw, err := fs.ReadFile(dir, name)
		if err != nil {
			return nil, err
		}
		var v vex
		if err := decode(raw, &v); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for _, s := range v.Statements {
			for _, id := range append(s.Vulnerability.Aliases, s.Vulnerability.Name) {
				out[id] = true
			}
		}
	}
	return out, nil
}

func decode(raw []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the object")
	}
	return nil
}

func checkOSV(raw []byte, id string) error {
	var o osv
	if err := decode(raw, &o); err != nil {
		return err
	}
	var errs []error
	must := func(holds bool, format string, args ...any) {
		if !holds {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	must(strings.HasPrefix(o.SchemaVersion, "1."), "schema_version %q: want 1.x", o.SchemaVersion)
	must(o.ID == id && idForm.MatchString(id), "id %q: want NEPHELE-YEAR-NUMBER, which is the name of the file", o.ID)
	must(!o.Published.IsZero() && !o.Modified.Before(o.Published), "published and modified: want both, in this order")
	must(o.Summary != "" && len(o.Summary) <= 120 && o.Details != "", "summary (at most 120 bytes) and details: want both")
	must(len(o.Severity) > 0, "severity: want one")
	for _, s := range o.Severity {
		must(s.Type == "CVSS_V3" && strings.HasPrefix(s.Score, "CVSS:3.") || s.Type == "CVSS_V4" && strings.HasPrefix(s.Score, "CVSS:4."), "severity %s %q: want a vector of CVSS", s.Type, s.Score)
	}
	must(len(o.Affected) > 0, "affected: want at least one package")
	for _, a := range o.Affected {
		must(a.Package.Ecosystem == "Go" && (a.Package.Name == module || strings.HasPrefix(a.Package.Name, module+"/")), "affected: %s %s is not ours", a.Package.Ecosystem, a.Package.Name)
		must(len(a.Ranges) > 0, "affected: want ranges")
		for _, r := range a.Ranges {
			must(r.Type == "SEMVER" && len(r.Events) > 0 && r.Events[0]["introduced"] != "", "ranges: want SEMVER, and first where it was introduced")
			for _, e := range r.Events {
				for what, version := range e {
					must(slices.Contains([]string{"introduced", "fixed", "last_affected"}, what) && numberOf.MatchString(version) && len(e) == 1,
						"ranges: %s %q: want introduced, fixed or last_affected, with a version such as 1.2.3", what, version)
				}
			}
		}
	}
	for _, r := range o.References {
		must(slices.Contains(knownRefs, r.Type) && strings.HasPrefix(r.URL, "https://"), "references: %s %q: want one of %v with an https URL", r.Type, r.URL, knownRefs)
	}
	return errors.Join(errs...)
}

func checkVEX(raw []byte) error {
	var v vex
	if err := decode(raw, &v); err != nil {
		return err
	}
	var errs []error
	must := func(holds bool, format string, args ...any) {
		if !holds {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	must(v.Context == "https://openvex.dev/ns/v0.2.0", "@context %q: want https://openvex.dev/ns/v0.2.0", v.Context)
	must(strings.HasPrefix(v.ID, "https://"), "@id %q: want an https URL", v.ID)
	must(v.Author != "" && !v.Timestamp.IsZero() && v.Version >= 1, "author, timestamp, version: want all")
	must(len(v.Statements) > 0, "statements: want at least one; a document without any says nothing and is left out")
	for _, s := range v.Statements {
		must(s.Vulnerability.Name != "", "statements: a vulnerability has no name")
		must(len(s.Products) > 0, "%s: want products", s.Vulnerability.Name)
		for _, p := range s.Products {
			must(strings.HasPrefix(p.ID, "pkg:golang/"+module+"@v"), "%s: product %q: want pkg:golang/%s@vVERSION", s.Vulnerability.Name, p.ID, module)
		}
		must(slices.Contains(statuses, s.Status), "%s: status %q: want one of %v", s.Vulnerability.Name, s.Status, statuses)
		must(s.Status != "not_affected" || slices.Contains(reasons, s.Justification), "%s: justification %q: want one of %v", s.Vulnerability.Name, s.Justification, reasons)
		must(s.Status != "affected" || s.ActionStatement != "", "%s: want an action_statement: what to do", s.Vulnerability.Name)
	}
	return errors.Join(errs...)
}
