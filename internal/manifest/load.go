package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	antreav1beta1 "github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/internal/expect"
	"github.com/nephele-io/nephele/internal/kinds"
	"github.com/nephele-io/nephele/internal/platform/unicodetext"
)

// loader collects what the files hold.
type loader struct {
	schemas *schemas
	kinds   map[schema.GroupVersionKind]func() Object
	set     *Set
	bad     []Problem
	seen    map[string]Position
	// most is how many objects are taken, 0 for any number, and taken how many have been.
	most, taken int
	// nested is how many lists the object is in.
	nested int
	// held counts the documents that hold something, number all documents of the file.
	held, number int
}

// Parse reads one text of at most so many objects; 0 means any number. It fails as Load does.
func Parse(name string, content []byte, most int) (*Set, error) {
	s, err := ourSchemas()
	if err != nil {
		return nil, err
	}
	l := &loader{schemas: s, kinds: readable(), set: &Set{}, seen: map[string]Position{}, most: most}
	l.file(name, content)
	if len(l.bad) > 0 {
		return nil, &InputError{l.bad}
	}
	return l.set, nil
}

// Load reads files and directories (all .yaml, .yml and .json files below them); "-" represents
// stdin. It fails with an *InputError that lists everything that cannot be read as what it says it
// is.
func Load(paths []string, stdin io.Reader) (*Set, error) {
	s, err := ourSchemas()
	if err != nil {
		return nil, err
	}
	l := &loader{schemas: s, kinds: readable(), set: &Set{}, seen: map[string]Position{}}
	for _, path := range paths {
		if path == "-" {
			content, err := io.ReadAll(stdin)
			if err != nil {
				return nil, fmt.Errorf("reading the standard input: %w", err)
			}
			l.named("-", content)
			continue
		}
		if err := l.path(path); err != nil {
			return nil, err
		}
	}
	if len(l.bad) > 0 {
		return nil, &InputError{l.bad}
	}
	return l.set, nil
}

func (l *loader) path(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		var pe *fs.PathError
		if errors.As(err, &pe) {
			err = pe.Err
		}
		l.bad = append(l.bad, Problem{Position: Position{File: path}, Text: err.Error()})
		return nil
	}
	if !info.IsDir() {
		content, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("reading manifests: %w", err)
		}
		l.named(path, content)
		return nil
	}
	found := false
	err = filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(p)) {
			return err
		}
		found = true
		return l.read(p)
	})
	if err == nil && !found {
		l.bad = append(l.bad, Problem{Position: Position{File: path}, Text: "there is no .yaml, .yml or .json file in this directory"})
	}
	return err
}

// fault notes what cannot be read; object is nil where it is about none.
func (l *loader) fault(at Position, object *Document, field, text string) {
	l.bad = append(l.bad, Problem{Position: at, Number: l.number, Object: object, Field: field, Text: text})
}

// named takes a file that somebody named: then there has to be something in it.
func (l *loader) named(path string, content []byte) {
	before := l.held
	if l.file(path, content); l.held == before {
		l.bad = append(l.bad, Problem{Position: Position{File: path}, Text: "there is no object in this file"})
	}
}

func (l *loader) read(path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("reading manifests: %w", err)
	}
	l.file(path, content)
	return nil
}

var separator = regexp.MustCompile(`(?m)^---(?:[ \t].*)?\r?$`)

// file takes one file apart into documents.
func (l *loader) file(path string, content []byte) {
	l.number = 0
	content, err := unicodetext.Decode(content)
	if err != nil {
		l.held++
		l.bad = append(l.bad, Problem{Position: Position{File: path}, Text: err.Error()})
		return
	}
	start := 0
	cut := func(end int) {
		l.number++
		chunk := content[start:end]
		l.document(path, bytes.Count(content[:start], []byte("\n")), chunk)
	}
	for _, at := range separator.FindAllIndex(content, -1) {
		if l.most > 0 && l.taken > l.most {
			return
		}
		cut(at[0])
		start = at[1]
	}
	cut(len(content))
}

var yamlLine = regexp.MustCompile(`line (\d+)`)

// document reads one document; offset is the number of lines above it.
func (l *loader) document(path string, offset int, chunk []byte) {
	if t := bytes.TrimSpace(chunk); len(t) > 0 && (t[0] == '{' || t[0] == '[') {
		// JSON may be indented by tabs, which YAML forbids; inside strings JSON has none.
		chunk = bytes.ReplaceAll(chunk, []byte("\t"), []byte(" "))
	}
	var root yamlv3.Node
	if err := yamlv3.Unmarshal(chunk, &root); err != nil {
		l.held++
		l.malformed(Position{path, 1 + offset}, offset, err)
		return
	}
	if len(root.Content) == 0 || root.Content[0].Tag == "!!null" {
		return
	}
	l.held++
	raw, err := yaml.YAMLToJSONStrict(chunk)
	if err != nil {
		l.malformed(Position{path, root.Content[0].Line + offset}, offset, err)
		return
	}
	l.object(Position{path, root.Content[0].Line + offset}, root.Content[0], offset, raw)
}

// malformed words an error of the YAML parsers, which name a line of the document.
func (l *loader) malformed(at Position, offset int, err error) {
	text := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "error converting YAML to JSON: "), "yaml: ")
	text = strings.TrimSpace(strings.TrimPrefix(text, "unmarshal errors:"))
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		n, _ := strconv.Atoi(m[1])
		at.Line, text = n+offset, strings.TrimPrefix(text, m[0]+": ")
	}
	l.fault(at, nil, "", "not YAML or JSON: "+text)
}

// head is what every object begins with.
type head struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
	} `json:"metadata"`
}

// object reads one object, which may be a List of others.
func (l *loader) object(at Position, n *yamlv3.Node, offset int, raw []byte) {
	var h head
	err := json.Unmarshal(raw, &h)
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) && wrong.Field != "" {
		l.fault(at, nil, wrong.Field, fmt.Sprintf("got a %s, want a %s (what YAML takes for something else, such as 1, y and no, needs quotes)", wrong.Value, wrong.Type))
		return
	}
	if err != nil || n.Kind != yamlv3.MappingNode {
		l.fault(at, nil, "", "not a Kubernetes object: want a mapping with apiVersion, kind and metadata")
		return
	}
	if h.APIVersion == "" || h.Kind == "" {
		l.fault(at, nil, "", "not a Kubernetes object: want the fields apiVersion and kind")
		return
	}
	gv, err := schema.ParseGroupVersion(h.APIVersion)
	if err != nil {
		l.fault(at, nil, "apiVersion", err.Error())
		return
	}
	if of, is := strings.CutSuffix(h.Kind, "List"); is {
		l.list(at, n, offset, raw, head{APIVersion: h.APIVersion, Kind: of})
		return
	}
	if l.taken++; l.most > 0 && l.taken > l.most {
		if l.taken == l.most+1 {
			l.bad = append(l.bad, Problem{Position: at, Number: l.number, Text: fmt.Sprintf("there are more than %d objects", l.most), TooMuch: true})
		}
		return
	}
	gvk := gv.WithKind(h.Kind)
	build, ok := l.kinds[gvk]
	if !ok {
		l.foreign(at, gvk, h)
		return
	}
	if h.Metadata.Name == "" {
		l.fault(at, nil, "", h.Kind+" without metadata.name")
		return
	}
	d := &Document{Position: at, Number: l.number, Object: build(), Group: gvk.Group, Kind: gvk.Kind, node: n, offset: offset}
	d.Object.SetName(h.Metadata.Name)
	switch {
	case clusterScoped(gvk):
	case h.Metadata.Namespace == "":
		d.Object.SetNamespace("default")
	default:
		d.Object.SetNamespace(h.Metadata.Namespace)
	}
	l.take(d, gvk, raw)
}

// maxNested is how many lists may be in one another. Each is read anew for its items.
const maxNested = 4

// list reads the items of a list. In the answer of an API server they do not say again of which
// kind they are, which that of the list says.
func (l *loader) list(at Position, n *yamlv3.Node, offset int, raw []byte, of head) {
	if l.nested == maxNested {
		l.fault(at, nil, "items", fmt.Sprintf("there are more than %d lists in one another", maxNested))
		return
	}
	l.nested++
	defer func() { l.nested-- }()
	var items struct {
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(raw, &items); err != nil {
		l.fault(at, nil, "items", "want a list of objects")
		return
	}
	for i, item := range items.Items {
		if in := node(n, fmt.Sprintf("items[%d]", i)); in != nil {
			l.object(Position{at.File, in.Line + offset}, in, offset, of.complete(item))
		}
	}
}

// complete returns an object of a list with the kind that its list tells, if it tells none itself.
func (h head) complete(item json.RawMessage) json.RawMessage {
	var fields map[string]json.RawMessage
	if h.Kind == "" || json.Unmarshal(item, &fields) != nil || fields == nil || fields["kind"] != nil || fields["apiVersion"] != nil {
		return item
	}
	for name, value := range map[string]string{"kind": h.Kind, "apiVersion": h.APIVersion} {
		fields[name], _ = json.Marshal(value) // a text always can be
	}
	out, err := json.Marshal(fields)
	if err != nil {
		return item
	}
	return out
}

// antreaKinds are the kinds of crd.antrea.io that are no part of a policy.
var antreaKinds = []string{"AntreaAgentInfo", "AntreaControllerInfo", "AntreaNodeConfig", "BGPPolicy", "Egress", "ExternalIPPool", "FlowExporterDestination",
	"IPPool", "NodeLatencyMonitor", "PacketCapture", "SupportBundleCollection", "Traceflow", "TrafficControl"}

// kindsIn returns the kinds of a group that we define all of, sorted; none for the groups of
// others, which hold kinds that we do not know.
func (l *loader) kindsIn(group string) []string {
	if !strings.HasSuffix(group, "antrea.io") && group != expect.GroupVersion().Group {
		return nil
	}
	var out []string
	for known := range l.kinds {
		if known.Group == group {
			out = append(out, known.Kind)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// foreign deals with a kind that is not one of ours: a mistake if it nearly is, else a note.
func (l *loader) foreign(at Position, gvk schema.GroupVersionKind, h head) {
	var versions []string
	for known := range l.kinds {
		if known.Group == gvk.Group && known.Kind == gvk.Kind {
			versions = append(versions, known.GroupVersion().String())
		}
	}
	if len(versions) > 0 {
		l.fault(at, nil, "apiVersion", fmt.Sprintf("%s has no version %q, want %s", gvk.Kind, gvk.Version, slices.Max(versions)))
		return
	}
	if known := l.kindsIn(gvk.Group); len(known) > 0 && !slices.Contains(antreaKinds, gvk.Kind) {
		l.fault(at, nil, "kind", fmt.Sprintf("there is no %s in %s, want one of %s", gvk.Kind, gvk.Group, strings.Join(known, ", ")))
		return
	}
	l.set.Notes = append(l.set.Notes, fmt.Sprintf("%s: %s %s (%s) has no part in network policy and is left out",
		at, h.Kind, strings.TrimPrefix(h.Metadata.Namespace+"/"+h.Metadata.Name, "/"), h.APIVersion))
}

// take checks one object of ours and adds it to the set.
func (l *loader) take(d *Document, gvk schema.GroupVersionKind, raw []byte) {
	key := gvk.Group + " " + d.Name()
	if before, ok := l.seen[key]; ok {
		l.fault(d.Position, nil, "", fmt.Sprintf("%s is already given at %s", d.Name(), before))
		return
	}
	l.seen[key] = d.Position
	name, namespace := d.Object.GetName(), d.Object.GetNamespace()
	raw, ok := l.checkSchema(d, gvk, raw)
	if !ok {
		return
	}
	l.checkMetadata(d, raw)
	unknown, err := kjson.UnmarshalStrict(raw, d.Object)
	for _, u := range unknown {
		l.strict(d, u)
	}
	if err != nil {
		l.mistyped(d, err)
	}
	if err != nil || len(unknown) > 0 {
		return
	}
	if k, known := kinds.Find(gvk.Group, gvk.Kind); known {
		d.Object.GetObjectKind().SetGroupVersionKind(k.GroupVersionKind) // which a former version becomes
	}
	d.Object.SetName(name)
	d.Object.SetNamespace(namespace)
	l.set.Documents = append(l.set.Documents, d)
}

// checkSchema checks an object of a kind of ours. It returns the object with its defaults, and
// false if the object is refused or not what it says it is.
func (l *loader) checkSchema(d *Document, gvk schema.GroupVersionKind, raw []byte) ([]byte, bool) {
	c, err := l.schemas.get(gvk)
	if err != nil {
		l.fault(d.Position, d, "", err.Error())
		return nil, false
	}
	if c == nil {
		return raw, true
	}
	var content map[string]any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &content); err != nil {
		l.mistyped(d, err)
		return nil, false
	}
	if gvk.Group == antreav1beta1.GroupName && gvk.Kind == "ClusterGroup" && gvk.Version == "v1alpha2" && kinds.ListBlock(content) {
		if raw, err = json.Marshal(content); err != nil {
			l.fault(d.Position, d, "", err.Error())
			return nil, false
		}
	}
	if l.unknownFields(d, gvk, raw) {
		return nil, false
	}
	shape, rules := c.check(content)
	if l.wrongTypes(d, shape) {
		return nil, false
	}
	d.refuse(422, shape)
	d.refuse(422, rules)
	out, err := json.Marshal(content)
	if err != nil {
		l.fault(d.Position, d, "", err.Error())
		return nil, false
	}
	return out, true
}

// checkMetadata checks the name and the labels of an object.
func (l *loader) checkMetadata(d *Document, raw []byte) {
	var h struct {
		Metadata struct {
			Labels map[string]string `json:"labels"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(raw, &h); err != nil {
		return // decoding the whole object will say it better
	}
	var errs field.ErrorList
	check := apivalidation.NameIsDNSSubdomain
	if d.Kind == "Namespace" || d.Kind == "Service" {
		check = apivalidation.NameIsDNSLabel
	}
	for _, wrong := range check(d.Object.GetName(), false) {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), d.Object.GetName(), wrong))
	}
	errs = append(errs, metav1validation.ValidateLabels(h.Metadata.Labels, field.NewPath("metadata", "labels"))...)
	d.refuse(422, errs)
}

// unknownFields reports fields that the kind does not have; they are worth telling even if types
// are wrong as well. It returns false if there are none.
func (l *loader) unknownFields(d *Document, gvk schema.GroupVersionKind, raw []byte) bool {
	unknown, err := kjson.UnmarshalStrict(raw, l.kinds[gvk]())
	if err != nil {
		return false
	}
	for _, u := range unknown {
		l.strict(d, u)
	}
	return len(unknown) > 0
}

// jsonType finds that a value has another JSON type than it should; where a text only has not the
// right format, a type of ours is named.
var jsonType = regexp.MustCompile(`must be of type (array|boolean|integer|null|number|object|string)\b`)

// wrongTypes reports the errors that are about types; it returns false if there are none.
func (l *loader) wrongTypes(d *Document, errs field.ErrorList) bool {
	found := false
	for _, e := range errs {
		if e.Type == field.ErrorTypeTypeInvalid && jsonType.MatchString(e.Detail) {
			found = true
			l.fault(d.At(e.Field), d, e.Field, e.ErrorBody())
		}
	}
	return found
}

// refuse notes the first list of errors that is not empty as the reason why the API server would
// not take the object.
func (d *Document) refuse(code int, errs field.ErrorList) {
	if len(errs) == 0 || d.Refusal != nil {
		return
	}
	texts := make([]string, len(errs))
	for i, e := range errs {
		texts[i] = strings.TrimPrefix(e.Error(), "<nil>: ")
		if e.Type == field.ErrorTypeTooMany {
			texts[i] += keysOf(node(d.node, e.Field))
		}
	}
	r := d.Refuse(code, errs[0].Field, strings.Join(texts, "; "))
	d.Refusal = &r
}

// keysOf lists what a mapping holds, as the end of a message about how much that is; nothing of
// what is no mapping.
func keysOf(n *yamlv3.Node) string {
	if n == nil || n.Kind != yamlv3.MappingNode {
		return ""
	}
	var keys []string
	for i := 0; i+1 < len(n.Content); i += 2 {
		keys = append(keys, n.Content[i].Value)
	}
	return ": " + strings.Join(keys, " and ")
}

var quoted = regexp.MustCompile(`^(unknown|duplicate) field "(.*)"$`)

// strict reports an error of strict decoding.
func (l *loader) strict(d *Document, err error) {
	if m := quoted.FindStringSubmatch(err.Error()); m != nil {
		want := "the kind has no such field"
		if m[1] == "duplicate" {
			want = "the field is given twice"
		}
		l.fault(d.At(m[2]), d, m[2], want)
		return
	}
	l.fault(d.Position, d, "", err.Error())
}

// mistyped reports an error of decoding.
func (l *loader) mistyped(d *Document, err error) {
	var te *json.UnmarshalTypeError
	if errors.As(err, &te) && te.Field != "" {
		l.fault(d.At(te.Field), d, te.Field, fmt.Sprintf("got a %s, want a %s", te.Value, te.Type))
		return
	}
	l.fault(d.Position, d, "", strings.TrimPrefix(err.Error(), "json: "))
}
