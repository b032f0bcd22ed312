package wire_test

import (
	"encoding/xml"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/seed"
	"github.com/nephele-io/nephele/internal/sim/ec2/wire"
)

func parse(t *testing.T, form string) wire.Params {
	t.Helper()
	values, err := url.ParseQuery(form)
	if err != nil {
		t.Fatal(err)
	}
	return wire.NewParams(values)
}

func TestParams(t *testing.T) {
	p := parse(t, "Action=X&L.2=b&L.10=c&L.1=a&L.x=no&S.1.K=k1&S.1.N.1=n&S.3.K=k3&B=TRUE&I=-7&E=&Sub.Value=v")
	if got := p.Strings("L"); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("list in the order of its indices: %q", got)
	}
	elements := p.Elements("S")
	if len(elements) != 2 || elements[0].String("K") != "k1" || elements[1].String("K") != "k3" {
		t.Errorf("elements %v", elements)
	}
	if got := elements[0].Name("K"); got != "S.1.K" {
		t.Errorf("full name %q", got)
	}
	if v, ok, err := p.Bool("B"); !v || !ok || err != nil {
		t.Errorf("bool %v %v %v", v, ok, err)
	}
	if v, ok, err := p.Int("I"); v != -7 || !ok || err != nil {
		t.Errorf("int %v %v %v", v, ok, err)
	}
	if _, ok, err := p.Int("None"); ok || err != nil {
		t.Errorf("absent int: %v %v", ok, err)
	}
	if !p.Has("E") || p.String("E") != "" || p.Has("None") || !p.Has("Sub") || p.String("Sub") != "" {
		t.Error("an empty value is not an absent one, a branch is not a value")
	}
	if p.String("Sub.Value") != "v" || p.Sub("Sub").String("Value") != "v" {
		t.Error("dotted keys")
	}
	if p.Sub("None").Strings("x") != nil || p.Elements("None") != nil {
		t.Error("an absent branch has elements")
	}
	if got := p.Unread(); !slices.Equal(got, []string{"Action", "L.x", "S.1.N.1"}) {
		t.Errorf("unread %q", got)
	}
	var bad *wire.ParamError
	if _, _, err := parse(t, "A.1.N=x").Elements("A")[0].Int("N"); !errors.As(err, &bad) || bad.Key != "A.1.N" || bad.Value != "x" {
		t.Errorf("bad number: %v", err)
	}
	if _, _, err := parse(t, "B=ja").Bool("B"); !errors.As(err, &bad) {
		t.Errorf("bad bool: %v", err)
	}
}

// TestSDKBodies reads request bodies that the SDK ships as its own fixtures: every action that the
// simulator knows, with every parameter set and two elements in every list.
func TestSDKBodies(t *testing.T) {
	files, err := filepath.Glob("testdata/requests/*.request.snap")
	if err != nil || len(files) < 30 {
		t.Fatalf("%d fixtures, %v", len(files), err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		parts := strings.SplitN(strings.TrimSpace(string(data)), "\n\n", 3)
		if len(parts) != 3 {
			t.Fatalf("%s has %d parts", file, len(parts))
		}
		form, err := url.ParseQuery(parts[2])
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		p := wire.NewParams(form)
		if got, want := p.String("Action"), strings.TrimSuffix(filepath.Base(file), ".request.snap"); got != want {
			t.Errorf("%s: action %q", file, got)
		}
		if got := len(p.Map()); got != len(form) {
			t.Errorf("%s: %d of %d parameters arrive", file, got, len(form))
		}
		read := readAll(p, form)
		if left := p.Unread(); len(left) > 0 {
			t.Errorf("%s: %d parameters read, these are out of reach: %q", file, read, left)
		}
	}
}

// readAll asks for every parameter through lists and branches only, as actions do.
func readAll(p wire.Params, form url.Values) int {
	n := 0
	index := regexp.MustCompile(`^(.*?)\.(?:member\.)?(\d+)(?:\.(.*))?$`)
	for key := range form {
		n++
		m := index.FindStringSubmatch(key)
		switch {
		case m == nil:
			p.String(key)
		case m[3] == "":
			p.Strings(m[1])
			p.Strings(m[1] + ".member")
		default:
			for _, list := range []string{m[1], m[1] + ".member"} {
				for _, e := range p.Elements(list) {
					readAll(e, url.Values{m[3]: nil})
				}
			}
		}
	}
	return n
}

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"", "", true}, {"", "a", false}, {"a", "a", true}, {"a", "A", false}, {"a", "ab", false},
		{"*", "", true}, {"*", "anything", true}, {"a*", "abc", true}, {"*c", "abc", true}, {"a*c", "abd", false},
		{"?", "", false}, {"?", "é", true}, {"a?c", "abc", true}, {"a?c", "ac", false},
		{"*a*b*", "xxaxxbxx", true}, {"*a*b", "abab", true}, {"*ab", "aab", true},
		{`\*`, "*", true}, {`\*`, "x", false}, {`\?x`, "?x", true}, {`\\`, `\`, true}, {`a\`, `a\`, true},
		{`*\**`, "a*b", true}, {`*\**`, "ab", false}, {"[a]", "a", false}, {".", "a", false},
	} {
		if got := wire.Match(c.pattern, c.text); got != c.want {
			t.Errorf("Match(%q, %q) = %v", c.pattern, c.text, got)
		}
	}
}

// TestMatchAgainstRegexp compares with regular expressions on many small cases.
func TestMatchAgainstRegexp(t *testing.T) {
	seed := seed.Of(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	draw := func(alphabet string, n int) string {
		var b strings.Builder
		for range rng.IntN(n) {
			b.WriteByte(alphabet[rng.IntN(len(alphabet))])
		}
		return b.String()
	}
	for range 20000 {
		pattern, text := draw(`ab*?\`, 7), draw(`ab*?\`, 8)
		var re strings.Builder
		re.WriteString("^(?s)")
		for i := 0; i < len(pattern); i++ {
			switch {
			case pattern[i] == '*':
				re.WriteString(".*")
			case pattern[i] == '?':
				re.WriteString(".")
			case pattern[i] == '\\' && i+1 < len(pattern):
				i++
				re.WriteString(regexp.QuoteMeta(pattern[i : i+1]))
			default:
				re.WriteString(regexp.QuoteMeta(pattern[i : i+1]))
			}
		}
		re.WriteString("$")
		if want := regexp.MustCompile(re.String()).MatchString(text); wire.Match(pattern, text) != want {
			t.Fatalf("Match(%q, %q) is not %v", pattern, text, want)
		}
	}
}

type thing struct {
	id   string
	tags map[string]string
}

func ids(list []thing) string {
	var out []string
	for _, o := range list {
		out = append(out, o.id)
	}
	return strings.Join(out, " ")
}

func TestSelect(t *testing.T) {
	things := []thing{
		{"a", map[string]string{"Name": "web-1", "env": "prod"}}, {"b", map[string]string{"Name": "web-2"}},
		{"c", map[string]string{"env": ""}}, {"d", nil},
	}
	known := wire.Attributes[thing]{"id": func(o thing) []string { return []string{o.id} }}
	tags := func(o thing) map[string]string { return o.tags }
	for _, c := range []struct{ form, want string }{
		{"", "a b c d"},
		{"Filter.1.Name=id&Filter.1.Value.1=a&Filter.1.Value.2=c", "a c"},
		{"Filter.1.Name=tag:Name&Filter.1.Value.1=web-*", "a b"},
		{"Filter.1.Name=tag:name&Filter.1.Value.1=web-*", ""},
		{"Filter.1.Name=tag:Name&Filter.1.Value.1=web-*&Filter.2.Name=tag-key&Filter.2.Value.1=env", "a"},
		{"Filter.1.Name=tag:env&Filter.1.Value.1=", "c"},
		{"Filter.1.Name=tag-value&Filter.1.Value.1=prod", "a"},
	} {
		filters, err := parse(t, c.form).Filters()
		if err != nil {
			t.Fatal(err)
		}
		got, err := wire.Select(things, filters, known, tags)
		if err != nil || ids(got) != c.want {
			t.Errorf("%s: %q, %v; want %q", c.form, ids(got), err, c.want)
		}
	}
	var bad *wire.FilterError
	if _, err := wire.Select(things, []wire.Filter{{Name: "colour", Values: []string{"x"}}}, known, tags); !errors.As(err, &bad) {
		t.Errorf("unknown filter: %v", err)
	}
	if _, err := wire.Select(things, []wire.Filter{{Name: "tag:x", Values: []string{"x"}}}, known, nil); !errors.As(err, &bad) {
		t.Errorf("tag filter on something without tags: %v", err)
	}
	many := "Filter.1.Name=id"
	for i := range wire.MaxFilterValues + 1 {
		many += fmt.Sprintf("&Filter.1.Value.%d=x", i+1)
	}
	if _, err := parse(t, many).Filters(); !errors.As(err, &bad) || !bad.Limit {
		t.Errorf("too many values: %v", err)
	}
	for _, form := range []string{"Filter.1.Value.1=x", "Filter.1.Name=id"} {
		if _, err := parse(t, form).Filters(); !errors.As(err, &bad) {
			t.Errorf("%s: %v", form, err)
		}
	}
}

// TestPages walks a list that changes between two pages: what stays is seen exactly once.
func TestPages(t *testing.T) {
	key := func(s string) string { return s }
	list := []string{"e", "a", "c", "b", "d"}
	var seen []string
	token := ""
	for n := 0; ; n++ {
		page, err := wire.Cut(list, key, wire.Paging{Request: "r", Token: token, Size: 2})
		if err != nil {
			t.Fatal(err)
		}
		seen = append(seen, page.Items...)
		if token = page.Next; token == "" {
			break
		}
		if n == 0 {
			list = []string{"e", "c", "aa", "d", "f"} // a and b have gone, aa and f are new
		}
	}
	if got := strings.Join(seen, " "); got != "a b c d e f" {
		t.Errorf("pages hold %q", got)
	}
	whole, err := wire.Cut(list, key, wire.Paging{Request: "r"})
	if err != nil || len(whole.Items) != len(list) || whole.Next != "" {
		t.Errorf("one page: %v %v", whole, err)
	}
	page, err := wire.Cut(list, key, wire.Paging{Request: "r", Size: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []wire.Paging{{Request: "other", Token: page.Next}, {Request: "r", Token: "!"}, {Request: "r", Token: "YQ"}} {
		if _, err := wire.Cut(list, key, p); !errors.Is(err, wire.ErrToken) {
			t.Errorf("%+v: %v", p, err)
		}
	}
}

func TestFingerprint(t *testing.T) {
	same := wire.Fingerprint(parse(t, "Action=A&F=1&MaxResults=5"), "account")
	if same != wire.Fingerprint(parse(t, "Action=A&F=1&NextToken=x&MaxResults=9"), "account") {
		t.Error("page size and token change the request")
	}
	for _, other := range []string{
		wire.Fingerprint(parse(t, "Action=A&F=2"), "account"), wire.Fingerprint(parse(t, "Action=A&F=1"), "other"),
	} {
		if other == same {
			t.Error("another request has the same fingerprint")
		}
	}
}

func TestXML(t *testing.T) {
	root := wire.Node("R", wire.Text("t", `<&>"'`+"\n\u0007é"), wire.Text("none", ""), wire.Element{Name: "empty"},
		wire.List("set", []int{1, 2}, func(n int) []wire.Element { return []wire.Element{wire.Int("n", n), wire.Bool("b", n == 1)} }),
		wire.List("nothing", nil, func(int) []wire.Element { return nil }))
	root.Attr = "urn:x"
	var got struct {
		XMLName xml.Name
		T       string `xml:"t"`
		None    *string
		Empty   *string `xml:"empty"`
		Set     []struct {
			N int  `xml:"n"`
			B bool `xml:"b"`
		} `xml:"set>item"`
		Nothing *struct{} `xml:"nothing"`
	}
	if err := xml.Unmarshal(wire.Marshal(root), &got); err != nil {
		t.Fatal(err)
	}
	if got.T != "<&>\"'\n\uFFFDé" || got.None != nil || got.Empty == nil || got.Nothing == nil {
		t.Errorf("read back %+v", got)
	}
	if got.XMLName.Space != "urn:x" || len(got.Set) != 2 || got.Set[1].N != 2 || !got.Set[0].B {
		t.Errorf("read back %+v", got)
	}
}
