package wire

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
)

// TestLines: a bad line is refused alone, a long one ends the stream.
func TestLines(t *testing.T) {
	r := NewReader(strings.NewReader("{\"beat\":true}\nnonsense\n{\"entities\":[{\"a\":[\"10.0.0.300\"]}]}\n{\"gone\":[{\"k\":\"p\"}],\"unknown\":1}\n{\"beat\""))
	var u Up
	if err := r.Read(&u); err != nil || !u.Beat {
		t.Fatal(err)
	}
	for range 2 {
		if err := r.Read(&u); !errors.Is(err, ErrLine) {
			t.Fatal(err)
		}
	}
	if err := r.Read(&u); err != nil || len(u.Gone) != 1 {
		t.Fatal(err, u)
	}
	if err := r.Read(&u); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatal(err)
	}
	long := NewReader(io.MultiReader(strings.NewReader(`"`+strings.Repeat("x", MostLine)), neverEnds{}))
	if err := long.Read(&u); !errors.Is(err, ErrTooLong) {
		t.Fatal(err)
	}
	if err := Write(io.Discard, strings.Repeat("x", MostLine)); !errors.Is(err, ErrTooLong) {
		t.Fatal(err)
	}
}

type neverEnds struct{}

func (neverEnds) Read(p []byte) (int, error) { return len(p), nil }

// TestChecks: what cannot be a name, a label, a port or an address is refused.
func TestChecks(t *testing.T) {
	fine := Entity{Ref: Ref{Pod, "shop", "web-1"}, Ports: []Port{{"http", "TCP", 80}}, Account: "web"}
	if err := fine.Check(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Entity){
		"no kind": func(e *Entity) { e.Kind = "x" }, "no namespace": func(e *Entity) { e.Namespace = "" }, "a Node with one": func(e *Entity) { e.Kind = Node },
		"a slash": func(e *Entity) { e.Name = "a/b" }, "two lines": func(e *Entity) { e.Name = "a\nb" }, "long": func(e *Entity) { e.Name = strings.Repeat("a", 254) },
		"no port": func(e *Entity) { e.Ports = []Port{{"x", "TCP", 0}} }, "no protocol": func(e *Entity) { e.Ports = []Port{{"x", "ICMP", 1}} },
		"a port with signs": func(e *Entity) { e.Ports = []Port{{"x;y", "TCP", 1}} }, "an account": func(e *Entity) { e.Account = "a b" },
	} {
		e := fine
		if change(&e); e.Check() == nil {
			t.Errorf("%s: taken", name)
		}
	}
	for _, labels := range []map[string]string{{"": "x"}, {"a": strings.Repeat("x", 64)}, {"a b": "x"}, {"a": "x\x00"}, {"a": "é"}} {
		if (&LabelSet{Labels: labels}).Check() == nil {
			t.Errorf("%q: taken", labels)
		}
	}
}

func FuzzRemoteMember(f *testing.F) {
	for _, s := range []string{"10.0.0.1", "10.0.0.1,fd00::1;http/TCP=80;x/UDP=1", "10.0.0.1;", ",", "::ffff:10.0.0.1", "10.0.0.1;http/TCP=080", "fe80::1%eth0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if m, err := ParseRemoteMember(text); err == nil && m.String() != text {
			t.Errorf("%q is read as %q", text, m.String())
		}
	})
}

// FuzzUp: whatever is read, what passes its check can be written and read again.
func FuzzUp(f *testing.F) {
	f.Add([]byte(`{"hello":{"version":1,"epoch":"x"},"labels":[{"i":1,"l":{"app":"web"}}],"entities":[{"k":"p","s":"shop","n":"web","l":1,"a":["10.0.0.1"],"o":[{"n":"http","t":"TCP","p":80}]}]}` + "\n"))
	f.Add([]byte(`{"entities":[{"k":"n","n":"x","a":["::ffff:1.2.3.4","fe80::1%0"]}],"gone":[{}],"namespaces":[{"n":"a"}],"counted":[{"uid":"u","p":-1,"r":[{"n":"x","b":1}]}]}` + "\n"))
	f.Fuzz(func(t *testing.T, line []byte) {
		var u Up
		if NewReader(bytes.NewReader(line)).Read(&u) != nil {
			return
		}
		for i := range u.Entities {
			_ = u.Entities[i].Check()
		}
		for i := range u.LabelSets {
			_ = u.LabelSets[i].Check()
		}
		for i := range u.Gone {
			_ = u.Gone[i].Check()
		}
		for i := range u.Counted {
			_ = u.Counted[i].Check()
		}
		var out bytes.Buffer
		if err := Write(&out, u); err != nil && !errors.Is(err, ErrTooLong) {
			t.Fatal(err)
		}
	})
}
