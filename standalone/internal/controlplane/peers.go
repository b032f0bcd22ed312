package controlplane

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"

	"github.com/nephele-io/nephele/internal/platform/certs"
)

const (
	// founderName is the name of the member that the others have joined.
	founderName = "first"
	// invitationVersion is the form of an Invitation.
	invitationVersion = 1
	// maxInvitation is the length of the longest, in bytes.
	maxInvitation = 1 << 20
	// promotePause is how often a new member asks whether it has caught up.
	promotePause = 200 * time.Millisecond
)

// Peers make a control plane one of several on one database: each has a copy, and a change counts
// when most of them have it.
type Peers struct {
	// Listen is IP:PORT, by which the others reach this one.
	Listen string
	// JoinFile holds what Peering.Add has returned; empty for the first one. It is read for a data
	// directory that has no database yet.
	JoinFile string
}

// Invitation is what a new member needs: the other members, and the keys that all share. Its holder
// can do everything in the cluster.
type Invitation struct {
	Version int `json:"version"`
	// Name is that of the new member, Peer its Peers.Listen.
	Name string `json:"name"`
	Peer string `json:"peer"`
	// Members are the URLs of all members, by name, the new one included.
	Members map[string]string `json:"members"`
	// Files are what is shared in pki/.
	Files map[string][]byte `json:"files"`
}

// sharedFiles are those that all members have: authorities, so that what one has signed counts at
// the others, the key of ServiceAccounts, and that by which Secrets are encrypted. With the lists a
// new member believes former keys as long as the others do. The authority of etcd and its only
// client is each one's own.
func sharedFiles() []string {
	var out []string
	for _, authority := range []string{clusterAuthority, frontProxyAuthority, webhookAuthority, peerAuthority} {
		out = append(out, authority+".crt", authority+".key", authority+".ring")
	}
	return append(out, serviceAccountKey+".key", serviceAccountKey+".ring", encryptionFile)
}

// shares reports whether a data directory is that of one of several members, and has a list of keys
// in common with the others.
func (d *dataDir) shares(list string) (bool, error) {
	if list != SecretsKeys && !slices.Contains(sharedFiles(), list+".key") {
		return false, nil
	}
	_, err := os.Stat(d.peers())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

var peerName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// readInvitation reads what "nephele hub add" has written.
func readInvitation(path string) (*Invitation, error) {
	bad := func(err error) error {
		return &InputError{Flag: "--join", Value: path, Reason: err.Error(), Hint: "give the file that nephele hub add has written for this member", Err: err}
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, bad(err)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxInvitation+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, bad(err)
	}
	i, err := parseInvitation(text)
	if err != nil {
		return nil, bad(err)
	}
	return i, nil
}

func parseInvitation(text []byte) (*Invitation, error) {
	if len(text) > maxInvitation {
		return nil, fmt.Errorf("it has more than %d bytes: it is not what \"nephele hub add\" writes", maxInvitation)
	}
	var i Invitation
	in := json.NewDecoder(bytes.NewReader(text))
	in.DisallowUnknownFields()
	if err := in.Decode(&i); err != nil {
		return nil, fmt.Errorf("it is not what \"nephele hub add\" writes: %w", err)
	}
	if i.Version != invitationVersion {
		return nil, fmt.Errorf("version %d: this program knows %d", i.Version, invitationVersion)
	}
	if !peerName.MatchString(i.Name) {
		return nil, fmt.Errorf("name %q: want lower-case letters, digits and -", i.Name)
	}
	if _, err := parsePeer(i.Peer); err != nil {
		return nil, fmt.Errorf("peer %q: %w", i.Peer, err)
	}
	if i.Members[i.Name] != "https://"+i.Peer || len(i.Members) < 2 {
		return nil, errors.New("members: want at least two, the new one among them")
	}
	for name, at := range i.Members {
		u, err := url.Parse(at)
		if err != nil || u.Scheme != "https" || !peerName.MatchString(name) {
			return nil, fmt.Errorf("members: %q at %q is none", name, at)
		}
	}
	for _, name := range sharedFiles() {
		if len(i.Files[name]) == 0 {
			return nil, fmt.Errorf("files: %s is missing", name)
		}
	}
	if len(i.Files) != len(sharedFiles()) {
		return nil, fmt.Errorf("files: want %v and nothing else", sharedFiles())
	}
	return &i, nil
}

// parsePeer reads the address of a member.
func parsePeer(text string) (netip.AddrPort, error) {
	at, err := netip.ParseAddrPort(text)
	if err != nil || at.Addr().IsUnspecified() || at.Addr().Zone() != "" || at.Port() == 0 {
		return at, errors.New("want IP:PORT, by which the other members reach this one, such as 10.0.0.1:2380")
	}
	return at, nil
}

// peers are what a control plane knows of its part in a database of several.
type peers struct {
	name   string
	listen netip.AddrPort
	// joining are the members by name as etcd wants them, while there is no database yet.
	joining map[string]string
	// joined says that it is on record that there was one, invited that it is to be that of others:
	// it founds none.
	joined, invited bool
}

// record is what is kept in the data directory of a member.
type record struct {
	Name string `json:"name"`
	// Joined says that the member has had a database, and counts: without it, it must not come back
	// as if it had forgotten nothing.
	Joined bool `json:"joined,omitempty"`
	// Invited says that the member has not had one yet, and joins that of others.
	Invited bool `json:"invited,omitempty"`
}

func (d *dataDir) peers() string { return filepath.Join(d.path, "hub.json") }

// openPeers prepares the data directory of a member. It returns nil if it is none.
func openPeers(d *dataDir, o *Peers) (*peers, error) {
	var is record
	raw, err := os.ReadFile(d.peers())
	known := err == nil
	if known {
		err = json.Unmarshal(raw, &is)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read %s: %w", d.peers(), err)
	}
	if o == nil {
		if known {
			return nil, &InputError{Flag: "--peer-listen", Value: `""`, Reason: "the data directory is that of one of several members", Hint: "give the address by which the others reach it"}
		}
		return nil, nil
	}
	p := &peers{name: founderName}
	if p.listen, err = parsePeer(o.Listen); err != nil {
		return nil, &InputError{Flag: "--peer-listen", Value: o.Listen, Reason: "this is no address of a member", Hint: err.Error(), Err: err}
	}
	database, err := d.hasDatabase()
	if err != nil {
		return nil, err
	}
	if is.Joined && !database {
		return nil, &InputError{Flag: "--data-dir", Value: d.path, Reason: "the database of member " + is.Name + " is gone",
			Hint: "remove the member (nephele hub remove), and add it anew, on a new data directory"}
	}
	var invitation *Invitation
	if o.JoinFile != "" && !database {
		if invitation, err = readInvitation(o.JoinFile); err != nil {
			return nil, err
		}
	}
	if is.Invited && !database && invitation == nil { // it would found one beside that of the others
		return nil, &InputError{Flag: "--join", Value: `""`, Reason: "member " + is.Name + " has not joined the others yet", Hint: "give the file that nephele hub add has written for it"}
	}
	switch {
	case known && invitation != nil && invitation.Name != is.Name:
		return nil, &InputError{Flag: "--join", Value: o.JoinFile, Reason: "the data directory is that of member " + is.Name, Hint: "use a new data directory"}
	case known:
		p.name, p.joined, p.invited = is.Name, is.Joined, is.Invited
	case o.JoinFile != "" && database:
		return nil, &InputError{Flag: "--join", Value: o.JoinFile, Reason: "the data directory has a database of its own", Hint: "use a new data directory"}
	}
	if invitation != nil {
		if err := p.join(d, invitation); err != nil {
			return nil, err
		}
	}
	if known || invitation == nil { // the first is on record when it has a database
		return p, nil
	}
	return p, d.note(record{Name: p.name, Invited: true})
}

// note puts on record which member a data directory is that of.
func (d *dataDir) note(r record) error {
	raw, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return certs.WriteFile(d.peers(), append(raw, '\n'), 0o600)
}

// join takes over what all members share.
func (p *peers) join(d *dataDir, i *Invitation) error {
	if i.Peer != p.listen.String() {
		return &InputError{Flag: "--peer-listen", Value: p.listen.String(), Reason: "the member was added with " + i.Peer, Hint: "give that address, or remove the member and add it anew"}
	}
	if err := os.MkdirAll(d.pki(), 0o700); err != nil {
		return err
	}
	for _, name := range sharedFiles() {
		path := filepath.Join(d.pki(), name)
		present, err := os.ReadFile(path)
		switch {
		case err == nil && !bytes.Equal(present, i.Files[name]):
			return &InputError{Flag: "--join", Value: i.Name, Reason: "the data directory has keys of its own", Hint: "use a new data directory"}
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return err
		}
		if err := certs.WriteFile(path, i.Files[name], 0o600); err != nil {
			return err
		}
	}
	p.name, p.joining, p.invited = i.Name, i.Members, true
	return nil
}

func (p *peers) url() url.URL { return url.URL{Scheme: "https", Host: p.listen.String()} }

// configure makes etcd a member that others reach.
func (p *peers) configure(cfg *embed.Config, creds *credentials) {
	cfg.Name = p.name
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{p.url()}, []url.URL{p.url()}
	cfg.PeerTLSInfo = transport.TLSInfo{
		CertFile: creds.store.CertFile(peerCert), KeyFile: creds.store.KeyFile(peerCert), TrustedCAFile: creds.store.CertFile(peerAuthority),
		ClientCertAuth: true,
		// By which of its addresses a member calls is the network's business; the authority signs
		// for members only.
		SkipClientSANVerify: true,
	}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	if p.invited { // even if the start was cut off in which it was to join
		cfg.ClusterState = embed.ClusterStateFlagExisting
	}
	if p.joining != nil {
		cfg.InitialCluster = ""
		for _, name := range slices.Sorted(maps.Keys(p.joining)) {
			if cfg.InitialCluster != "" {
				cfg.InitialCluster += ","
			}
			cfg.InitialCluster += name + "=" + p.joining[name]
		}
	}
	// Others can be elected, and may have missed something.
	cfg.TickMs, cfg.ElectionMs = 100, 1000
	cfg.SnapshotCount, cfg.SnapshotCatchUpEntries = 10_000, 5000
}

// settle waits until the member counts, puts that on record, and tells the others where it is
// reached now.
func (p *peers) settle(ctx context.Context, d *dataDir, e *embed.Etcd) error {
	for e.Server.IsLearner() {
		_, err := e.Server.PromoteMember(ctx, uint64(e.Server.MemberID()))
		if err == nil || errors.Is(err, membership.ErrMemberNotLearner) {
			break
		}
		if errors.Is(err, membership.ErrIDNotFound) || errors.Is(err, membership.ErrIDRemoved) {
			return errRemoved
		}
		select {
		case <-e.Server.StopNotify():
			return errRemoved
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(promotePause):
		}
	}
	if !p.joined {
		if err := d.note(record{Name: p.name, Joined: true}); err != nil {
			return err
		}
		p.joined = true
	}
	own := e.Server.Cluster().Member(e.Server.MemberID())
	if at := p.url(); own != nil && !slices.Equal(own.PeerURLs, []string{at.String()}) {
		moved := membership.Member{ID: own.ID, RaftAttributes: membership.RaftAttributes{PeerURLs: []string{at.String()}}}
		if _, err := e.Server.UpdateMember(ctx, moved); err != nil {
			return fmt.Errorf("tell the address of this member: %w", err)
		}
	}
	return nil
}

// errRemoved is why a member does not run that somebody has taken out.
var errRemoved = errors.New("this member has been removed: add it anew, on a new data directory")
