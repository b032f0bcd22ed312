package controlplane

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap/zapcore"

	"github.com/nephele-io/nephele/internal/platform/certs"
	"github.com/nephele-io/nephele/internal/platform/keyring"
)

// invitation is one as Peering.Add makes it.
func invitation() Invitation {
	i := Invitation{Version: 1, Name: "second", Peer: "127.0.0.1:2", Members: map[string]string{"first": "https://127.0.0.1:1", "second": "https://127.0.0.1:2"}, Files: map[string][]byte{}}
	for _, name := range sharedFiles() {
		i.Files[name] = []byte(name)
	}
	return i
}

// TestParseInvitation: only what Peering.Add writes is taken, and no file beside those that are
// shared.
func TestParseInvitation(t *testing.T) {
	text := func(change func(*Invitation)) []byte {
		i := invitation()
		i.Members, i.Files = maps.Clone(i.Members), maps.Clone(i.Files)
		change(&i)
		raw, err := json.Marshal(i)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	got, err := parseInvitation(text(func(*Invitation) {}))
	if err != nil || got.Name != "second" || string(got.Files["ca.key"]) != "ca.key" {
		t.Fatal(got, err)
	}
	for want, wrong := range map[string][]byte{
		"is not what":     []byte("{"),
		"unknown field":   []byte(`{"version":1,"more":1}`),
		"more than":       make([]byte, maxInvitation+1),
		"version 2":       text(func(i *Invitation) { i.Version = 2 }),
		"name":            text(func(i *Invitation) { i.Name = "../x" }),
		"peer":            text(func(i *Invitation) { i.Peer = "0.0.0.0:1" }),
		"members":         text(func(i *Invitation) { delete(i.Members, "first") }),
		`"first" at`:      text(func(i *Invitation) { i.Members["first"] = "http://127.0.0.1:1" }),
		"ca.key is":       text(func(i *Invitation) { delete(i.Files, "ca.key") }),
		"and nothing els": text(func(i *Invitation) { i.Files["../../x"] = []byte("x") }),
	} {
		if got, err := parseInvitation(wrong); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v", want, got, err)
		}
	}
}

// TestOpenPeers: a data directory is that of one member, and says so.
func TestOpenPeers(t *testing.T) {
	fresh := func(prepare ...func(*dataDir)) *dataDir {
		d := &dataDir{path: t.TempDir()}
		if err := os.MkdirAll(d.etcd(), 0o700); err != nil {
			t.Fatal(err)
		}
		for _, p := range prepare {
			p(d)
		}
		return d
	}
	write := func(path ...string) func(*dataDir) {
		return func(d *dataDir) {
			at := filepath.Join(append([]string{d.path}, path...)...)
			if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o700), certs.WriteFile(at, []byte("x"), 0o600)); err != nil {
				t.Fatal(err)
			}
		}
	}
	i := invitation()
	fileOf := func(i Invitation) string {
		raw, err := json.Marshal(i)
		at := filepath.Join(t.TempDir(), "join.json")
		if err = errors.Join(err, os.WriteFile(at, raw, 0o600)); err != nil {
			t.Fatal(err)
		}
		return at
	}
	file := fileOf(i)
	alone, first, second := (*Peers)(nil), &Peers{Listen: "127.0.0.1:1"}, &Peers{Listen: "127.0.0.1:2", JoinFile: file}
	for name, c := range map[string]struct {
		dir  *dataDir
		o    *Peers
		want string
	}{
		"alone":                 {fresh(), alone, ""},
		"the first":             {fresh(), first, ""},
		"one that was alone":    {fresh(write("etcd", "member")), first, ""},
		"one that joins":        {fresh(), second, ""},
		"no address":            {fresh(), &Peers{Listen: "host:1"}, "want IP:PORT"},
		"any address":           {fresh(), &Peers{Listen: "[::]:1"}, "want IP:PORT"},
		"no port":               {fresh(), &Peers{Listen: "127.0.0.1:0"}, "want IP:PORT"},
		"another address":       {fresh(), &Peers{Listen: "127.0.0.1:3", JoinFile: file}, "was added with 127.0.0.1:2"},
		"no file":               {fresh(), &Peers{Listen: "127.0.0.1:2", JoinFile: file + "x"}, "no such file"},
		"a database":            {fresh(write("etcd", "member")), second, "a database of its own"},
		"keys of another hub":   {fresh(write("pki", "ca.key")), second, "keys of its own"},
		"a record that is none": {fresh(write("hub.json")), first, "invalid character"},
	} {
		p, err := openPeers(c.dir, c.o)
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want %s", name, err, c.want)
			}
			continue
		}
		if err != nil || (p == nil) != (c.o == nil) {
			t.Errorf("%s: %v, %v", name, p, err)
		}
		if c.o == nil {
			continue
		}
		// From then on, as soon as the first has a database, it is that.
		if c.o.JoinFile == "" {
			if _, err := os.Stat(c.dir.peers()); err == nil {
				t.Errorf("%s: it is on record before it has a database", name)
			}
			if err := c.dir.note(record{Name: p.name}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := openPeers(c.dir, nil); err == nil || !strings.Contains(err.Error(), "one of several members") {
			t.Errorf("%s: started alone: %v", name, err)
		}
		again, err := openPeers(c.dir, c.o)
		if err != nil || again.name != p.name || (again.joining == nil) != (p.joining == nil) {
			t.Errorf("%s: started again: %+v %+v, %v", name, again, p, err)
		}
	}
	// The file is not needed any more when there is a database.
	d := fresh()
	if _, err := openPeers(d, second); err != nil {
		t.Fatal(err)
	}
	write("etcd", "member")(d)
	if p, err := openPeers(d, &Peers{Listen: second.Listen, JoinFile: file + "x"}); err != nil || p.name != "second" || p.joining != nil {
		t.Errorf("without the file: %+v, %v", p, err)
	}
	// One that had a database and has none does not come back as if nothing was.
	for _, o := range []*Peers{first, second} {
		d = fresh()
		if err := d.note(record{Name: "second", Joined: true}); err != nil {
			t.Fatal(err)
		}
		if _, err := openPeers(d, o); err == nil || !strings.Contains(err.Error(), "the database of member second is gone") {
			t.Errorf("without its database: %v", err)
		}
	}
	d = fresh()
	if _, err := openPeers(d, second); err != nil {
		t.Fatal(err)
	}
	for _, name := range sharedFiles() {
		at := filepath.Join(d.pki(), name)
		if info, err := os.Stat(at); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	// One that was to join, and has no database because its first start was cut off, founds none.
	if p, err := openPeers(d, first); err == nil || !strings.Contains(err.Error(), "member second has not joined the others yet") {
		t.Errorf("without the file and a database: %+v, %v", p, err)
	}
	for _, joining := range []map[string]string{i.Members, nil} {
		store, err := certs.Open(d.pki(), time.Now)
		if err != nil {
			t.Fatal(err)
		}
		cfg := embed.NewConfig()
		(&peers{name: "second", joining: joining, invited: true}).configure(cfg, &credentials{store: store})
		if cfg.ClusterState != embed.ClusterStateFlagExisting {
			t.Errorf("joining %v: the state of the cluster is %q", joining, cfg.ClusterState)
		}
	}
	third := i
	third.Name, third.Members = "third", map[string]string{"first": "https://127.0.0.1:1", "third": "https://127.0.0.1:2"}
	if _, err := openPeers(d, &Peers{Listen: "127.0.0.1:2", JoinFile: fileOf(third)}); err == nil || !strings.Contains(err.Error(), "that of member second") {
		t.Errorf("another member's file: %v", err)
	}
}

// TestMembersShareFormerKeys: a new member believes what the others do, and proves itself by what
// they do; and no member changes alone what all share.
func TestMembersShareFormerKeys(t *testing.T) {
	hub, joins := &dataDir{path: t.TempDir()}, &dataDir{path: t.TempDir()}
	authorities := []string{clusterAuthority, frontProxyAuthority, webhookAuthority, peerAuthority}
	keys := func(d *dataDir) map[string]string {
		t.Helper()
		store, err := certs.Open(d.pki(), time.Now)
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]string{}
		for _, name := range authorities {
			a, err := store.Authority(name)
			if err != nil {
				t.Fatal(err)
			}
			out[name] = string(a.CertPEM())
		}
		if _, err := store.SigningKey(serviceAccountKey); err != nil {
			t.Fatal(err)
		}
		public, err := os.ReadFile(store.VerifyingFile(serviceAccountKey))
		if err != nil {
			t.Fatal(err)
		}
		out[serviceAccountKey] = string(public)
		return out
	}
	keys(hub)
	if err := os.MkdirAll(hub.etcd(), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := openEncryption(hub); err != nil {
		t.Fatal(err)
	}
	all := &Keys{hub}
	rotate := func(name string) error {
		next := certs.NextAuthorities
		if name == serviceAccountKey {
			next = certs.NextSigning
		}
		return all.Change(name, func(r keyring.Ring) (keyring.Ring, error) {
			made, err := KindOf(name).Make(rand.Reader, time.Now())
			if err != nil {
				return nil, err
			}
			return next(r, made, time.Now())
		})
	}
	for _, name := range append(authorities, serviceAccountKey) {
		if err := rotate(name); err != nil {
			t.Fatal(err)
		}
	}
	want := keys(hub)
	i := invitation()
	for name := range i.Files {
		text, err := os.ReadFile(filepath.Join(hub.pki(), name))
		if err != nil {
			t.Fatal(err)
		}
		i.Files[name] = text
	}
	p := &peers{listen: netip.MustParseAddrPort(i.Peer)}
	if err := p.join(joins, &i); err != nil {
		t.Fatal(err)
	}
	got := keys(joins)
	for name := range want {
		if strings.Count(want[name], "BEGIN") != 2 || got[name] != want[name] {
			t.Errorf("%s: %d keys are believed, and %d at the new member", name, strings.Count(want[name], "BEGIN"), strings.Count(got[name], "BEGIN"))
		}
	}
	if err := p.join(joins, &i); err != nil {
		t.Errorf("once more, after a start that was cut off: %v", err)
	}
	if err := hub.note(record{Name: founderName, Joined: true}); err != nil {
		t.Fatal(err)
	}
	for _, name := range append(authorities, serviceAccountKey, SecretsKeys) {
		if err := rotate(name); !errors.Is(err, errShared) {
			t.Errorf("%s: one member has changed it alone: %v", name, err)
		}
	}
	if shared, err := hub.shares(EtcdAuthority); shared || err != nil {
		t.Error(shared, err)
	}
}

// TestBackupOfOneOfSeveral: a member that does not run may lack what the others have agreed on.
func TestBackupOfOneOfSeveral(t *testing.T) {
	d := &dataDir{path: t.TempDir()}
	for _, name := range []string{"etcd/member", "hub.json"} {
		at := filepath.Join(d.path, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o700), certs.WriteFile(at, []byte("x"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := snapshotStopped(t.Context(), d, filepath.Join(t.TempDir(), "to")); err == nil || !strings.Contains(err.Error(), "back up one that runs") {
		t.Error(err)
	}
}

// TestQuorum: members that are catching up do not count.
func TestQuorum(t *testing.T) {
	all, needed, reached := Quorum([]Member{{Reached: true}, {}, {Reached: true}, {Learner: true, Reached: true}})
	if all != 3 || needed != 2 || reached != 2 {
		t.Error(all, needed, reached)
	}
	if all, needed, _ := Quorum([]Member{{}, {}, {}, {}}); all != 4 || needed != 3 {
		t.Error(all, needed)
	}
}

// TestRemovedMeanwhile: a member says that it was removed also where etcd gives up for it.
func TestRemovedMeanwhile(t *testing.T) {
	var out strings.Builder
	code := 0
	end := givingUp{out: &out, log: "etcd.log", exit: func(c int) { code = c }}
	end.OnWrite(&zapcore.CheckedEntry{Entry: zapcore.Entry{Message: notAmongMembers}}, nil)
	if code != 1 || out.String() != "nephele: etcd: this member has been removed: add it anew, on a new data directory\n" {
		t.Error(code, out.String())
	}
}
