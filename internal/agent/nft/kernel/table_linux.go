package kernel

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/nephele-io/nephele/internal/agent/nft/kernel/netfilter"
	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
)

const (
	tableOwner   = 0x2 // NFT_TABLE_F_OWNER
	tablePersist = 0x4 // NFT_TABLE_F_PERSIST
	// attrTableOwner is NFTA_TABLE_OWNER.
	attrTableOwner = 7
	// mostProcesses bounds the numbers of processes. The port of a socket is one, or larger.
	mostProcesses = 1 << 22
	// readAttempts is how often everything is read while others change their own tables.
	readAttempts = 20
)

// Table is the table in the kernel.
type Table struct {
	name   string
	socket *netfilter.Socket
	// commit is that of the socket; tests let it fail.
	commit func([]netfilter.Message) error
	// Adopt is called when rules are written where there were none, so that nobody may have
	// followed connections: after such that follow them and let everything pass, and before those
	// that do not. Nil does nothing.
	Adopt func()

	mu sync.Mutex
	// held is what the kernel holds; nil if that must be read first.
	held *ruleset.Program
	// owned tells that others cannot change the table.
	owned bool
	// lacks is what was found that the kernel does not have; nil before something was missed.
	lacks lacks
	setID uint32
}

// Open opens the table of a name, which need not be there yet, in the network namespace of the
// calling thread.
func Open(name string) (*Table, error) {
	s, err := netfilter.Open(netfilter.AnswerBuffer)
	if err != nil {
		return nil, err
	}
	return &Table{name: name, socket: s, commit: s.Commit}, nil
}

// Close ends the work with the table, which stays as it is.
func (t *Table) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.socket.Close()
}

// Owned reports whether the kernel keeps others from changing the table. It is known after the
// first Apply.
func (t *Table) Owned() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.owned
}

// Apply makes the kernel hold the program. If it fails nothing has changed, or it is not known what
// has; the next Apply finds out.
func (t *Table) Apply(want *ruleset.Program) (Written, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w, err := t.apply(want)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EEXIST) || errors.Is(err, unix.EBUSY) { // it is not as it was left
		w, err = t.apply(want)
	}
	if err != nil && t.lacks == nil && mayLack(err) {
		found, missing := t.probe()
		switch {
		case missing != nil:
			return w, fmt.Errorf("table %s: %w: %w", t.name, missing, err)
		case len(found) > 0:
			t.lacks = found
			w, err = t.apply(want)
		}
	}
	return w, err
}

func (t *Table) apply(want *ruleset.Program) (w Written, err error) {
	var messages []netfilter.Message
	held := t.held
	if held != nil && held.Leaves && !want.Leaves { // what was left is not known
		held = nil
	}
	t.held = nil // until it is known again
	if held == nil {
		w.Read = true
		if messages, err = t.reconcile(want, &w); err != nil {
			return w, err
		}
	} else if messages, err = t.change(ruleset.Diff(held, want), &w); err != nil {
		return w, err
	}
	if w.Messages = len(messages); w.Messages > 0 {
		if err := t.commit(messages); err != nil {
			return w, fmt.Errorf("table %s: %w", t.name, meaning(err))
		}
	}
	t.held = want
	return w, nil
}

// meaning says what an error of the kernel means where that is known.
func meaning(err error) error {
	switch {
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("%w: %w", ErrRights, err)
	case errors.Is(err, unix.EAFNOSUPPORT), errors.Is(err, unix.EPROTONOSUPPORT):
		return fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	return err
}

// Forget makes the next Apply read what the kernel holds.
func (t *Table) Forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.held = nil
}

// Delete removes the table.
func (t *Table) Delete() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.held = nil
	state, err := t.table()
	if err != nil || !state.there {
		return err
	}
	if err := t.commit([]netfilter.Message{t.newTable(state), t.deleteTable()}); err != nil {
		return fmt.Errorf("delete table %s: %w", t.name, meaning(err))
	}
	return nil
}

// Generation counts the transactions of the kernel, of all tables.
func (t *Table) Generation() (uint32, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var n uint32
	err := t.socket.Ask(unix.NFNL_SUBSYS_NFTABLES, unix.NFT_MSG_GETGEN, unix.AF_UNSPEC, false, nil, func(_ uint16, body []byte) error {
		return netfilter.Attributes(body[4:], func(ad *netlink.AttributeDecoder) {
			if ad.Type() == unix.NFTA_GEN_ID {
				n = ad.Uint32()
			}
		})
	})
	return n, err
}

// Revision is that of the program in the kernel; 0 if it has none. It also reports whether the
// table is there.
func (t *Table) Revision() (n uint64, there bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	state, err := t.table()
	if err != nil || !state.there {
		return 0, false, err
	}
	chain := netfilter.Text(netfilter.Text(nil, unix.NFTA_RULE_TABLE, t.name), unix.NFTA_RULE_CHAIN, ruleset.RevisionChain)
	err = t.socket.Ask(unix.NFNL_SUBSYS_NFTABLES, unix.NFT_MSG_GETRULE, unix.NFPROTO_INET, true, chain, func(_ uint16, body []byte) error {
		return netfilter.Attributes(body[4:], func(ad *netlink.AttributeDecoder) {
			if ad.Type() == unix.NFTA_RULE_USERDATA {
				n = ruleset.ParseRevision(commentOf(ad.Bytes()))
			}
		})
	})
	if errors.Is(err, unix.ENOENT) {
		err = nil
	}
	if err != nil {
		return 0, true, fmt.Errorf("read the revision of table %s: %w", t.name, meaning(err))
	}
	return n, true, nil
}

// Verify reads everything and returns in which chains and sets the kernel differs from a program,
// and what it has besides, sorted.
func (t *Table) Verify(want *ruleset.Program) ([]string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	img, err := t.read()
	if err != nil {
		return nil, err
	}
	if !img.state.there {
		return []string{"the table is not there"}, nil
	}
	c := img.compare(want, t.lacks)
	var out []string
	for _, s := range c.foreign {
		out = append(out, s+" is not of our making")
	}
	for _, x := range c.Chains {
		out = append(out, "chain "+x.Name)
	}
	for _, name := range c.Gone {
		out = append(out, "chain "+name+" besides")
	}
	for name := range c.NewRanges {
		out = append(out, "set "+string(name))
	}
	for _, name := range c.GoneRanges {
		out = append(out, "set "+string(name)+" besides")
	}
	for name, list := range c.Point {
		out = append(out, fmt.Sprintf("dispatch %s in %d elements", name, len(list)))
	}
	for name, list := range c.Unpoint {
		out = append(out, fmt.Sprintf("dispatch %s in %d elements besides", name, len(list)))
	}
	for _, name := range ruleset.KeyedSets() {
		if n := len(c.Add[name]) + len(c.Remove[name]); n > 0 {
			out = append(out, fmt.Sprintf("set %s in %d elements", name, n))
		}
	}
	slices.Sort(out)
	return out, nil
}

// newTable makes the table ours, or keeps it.
func (t *Table) newTable(s state) netfilter.Message {
	b := netfilter.Text(nil, unix.NFTA_TABLE_NAME, t.name)
	flags := uint32(tableOwner | tablePersist)
	if s.there && s.flags&tableOwner == 0 && s.flags&tablePersist == 0 || s.plain {
		flags = 0
	}
	return netfilter.Message{Kind: unix.NFT_MSG_NEWTABLE, Flags: unix.NLM_F_CREATE, Attrs: netfilter.Number(b, unix.NFTA_TABLE_FLAGS, flags)}
}

func (t *Table) deleteTable() netfilter.Message {
	return netfilter.Message{Kind: unix.NFT_MSG_DELTABLE, Attrs: netfilter.Text(nil, unix.NFTA_TABLE_NAME, t.name)}
}

// reconcile returns what leads from what the kernel holds to a program.
func (t *Table) reconcile(want *ruleset.Program, w *Written) ([]netfilter.Message, error) {
	img, err := t.read()
	if err != nil {
		return nil, err
	}
	if !img.state.there {
		img.state.plain = !t.ownership()
	}
	t.owned = !img.state.plain
	if t.Adopt != nil && follows(want) && img.chains[string(ruleset.ToHost)] == nil && img.chains[string(ruleset.FromHost)] == nil {
		if img, err = t.begin(img); err != nil {
			return nil, err
		}
	}
	c := img.compare(want, t.lacks)
	if c.foreign = slices.Compact(c.foreign); len(c.foreign) > 0 {
		w.Whole = true
		fresh := state{plain: !t.ownership()}
		t.owned = !fresh.plain
		messages := []netfilter.Message{t.newTable(img.state), t.deleteTable(), t.newTable(fresh)}
		rest, err := t.change(ruleset.Diff(nil, want), w)
		return append(append(messages, t.keyedSets(nil)...), rest...), err
	}
	var messages []netfilter.Message
	if !img.state.there || t.owned && img.state.owner != t.socket.Port() {
		messages = append(messages, t.newTable(img.state))
	}
	messages = append(messages, t.keyedSets(img.sets)...)
	rest, err := t.change(&c.Change, w)
	return append(messages, rest...), err
}

// follows reports whether rules of a program look at connections, so that the kernel follows them.
func follows(p *ruleset.Program) bool {
	return p.Chains[string(ruleset.ToHost)] != nil || p.Chains[string(ruleset.FromHost)] != nil
}

// begin lets the kernel follow connections, and those be made known that are older. It returns what
// the kernel holds then.
func (t *Table) begin(img *image) (*image, error) {
	messages, err := t.change(ruleset.Diff(nil, ruleset.LetPass()), &Written{})
	if err != nil {
		return nil, err
	}
	if err := t.commit(append(append([]netfilter.Message{t.newTable(img.state)}, t.keyedSets(img.sets)...), messages...)); err != nil {
		return nil, fmt.Errorf("table %s: %w", t.name, meaning(err))
	}
	t.Adopt()
	return t.read()
}

// ownership reports whether the kernel has tables with an owner that outlive it. It tries, with a
// table that is gone at once.
func (t *Table) ownership() bool {
	b := netfilter.Text(nil, unix.NFTA_TABLE_NAME, t.name+"-probe")
	create := netfilter.Message{Kind: unix.NFT_MSG_NEWTABLE, Flags: unix.NLM_F_CREATE, Attrs: netfilter.Number(slices.Clone(b), unix.NFTA_TABLE_FLAGS, tableOwner|tablePersist)}
	return t.commit([]netfilter.Message{create, {Kind: unix.NFT_MSG_DELTABLE, Attrs: b}}) == nil
}

func (t *Table) keyedSets(there map[ruleset.SetName]*readSet) []netfilter.Message {
	var out []netfilter.Message
	for _, name := range ruleset.KeyedSets() {
		if there[name] == nil {
			t.setID++
			out = append(out, setMessage(t.name, name, t.setID))
		}
	}
	return out
}

// change makes the transaction of a change: what others refer to comes first, and goes last.
func (t *Table) change(c *ruleset.Change, w *Written) ([]netfilter.Message, error) {
	var out []netfilter.Message
	for _, name := range slices.Sorted(maps.Keys(c.NewRanges)) {
		t.setID++
		elements := rangeElements(c.NewRanges[name])
		w.Elements += len(elements)
		out = append(out, setMessage(t.name, name, t.setID))
		out = append(out, elementMessages(unix.NFT_MSG_NEWSETELEM, t.name, name, elements)...)
	}
	for _, name := range c.NewDispatch {
		t.setID++
		out = append(out, setMessage(t.name, name, t.setID))
	}
	for _, name := range ruleset.KeyedSets() {
		w.Elements += len(c.Add[name]) + len(c.Remove[name])
		out = append(out, elementMessages(unix.NFT_MSG_NEWSETELEM, t.name, name, keyed(c.Add[name]))...)
	}
	for _, x := range c.Chains {
		w.Chains++
		if x.New {
			out = append(out, t.lacks.chainMessage(t.name, x.Name))
		} else {
			out = append(out, named(unix.NFT_MSG_DELRULE, t.name, unix.NFTA_RULE_CHAIN, x.Name))
		}
	}
	// Chains that dispatches lead to are there by now, and those that they led to still are.
	for _, name := range slices.Sorted(maps.Keys(c.Unpoint)) {
		if !slices.Contains(c.GoneDispatch, name) {
			w.Elements += len(c.Unpoint[name])
			out = append(out, elementMessages(unix.NFT_MSG_DELSETELEM, t.name, name, keyed(c.Unpoint[name]))...)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Point)) {
		w.Elements += len(c.Point[name])
		out = append(out, elementMessages(unix.NFT_MSG_NEWSETELEM, t.name, name, pointers(c.Point[name]))...)
	}
	for _, x := range c.Chains {
		for i := range x.Rules {
			m, err := t.lacks.ruleMessage(t.name, x.Name, &x.Rules[i])
			if err != nil {
				return nil, err
			}
			w.Rules++
			out = append(out, m)
		}
	}
	for _, name := range c.Gone {
		w.Chains++
		out = append(out, named(unix.NFT_MSG_DELRULE, t.name, unix.NFTA_RULE_CHAIN, name))
	}
	for _, name := range c.GoneDispatch {
		out = append(out, named(unix.NFT_MSG_DELSET, t.name, unix.NFTA_SET_NAME, string(name)))
	}
	for _, name := range c.Gone {
		out = append(out, named(unix.NFT_MSG_DELCHAIN, t.name, unix.NFTA_CHAIN_NAME, name))
	}
	for _, name := range ruleset.KeyedSets() {
		out = append(out, elementMessages(unix.NFT_MSG_DELSETELEM, t.name, name, keyed(c.Remove[name]))...)
	}
	for _, name := range c.GoneRanges {
		out = append(out, named(unix.NFT_MSG_DELSET, t.name, unix.NFTA_SET_NAME, string(name)))
	}
	return out, nil
}

// state is the table itself.
type state struct {
	there bool
	flags uint32
	// owner is the port of the socket that owns it; 0 for none.
	owner uint32
	// plain tells that it must do without an owner.
	plain bool
}

// image is what the kernel holds.
type image struct {
	state  state
	chains map[string]*readChain
	sets   map[ruleset.SetName]*readSet
}

type readChain struct {
	hook  *hook
	rules []string
}

type readSet struct {
	set
	elements map[element]bool
}

// table reads the table itself.
func (t *Table) table() (state, error) {
	var s state
	name := netfilter.Text(nil, unix.NFTA_TABLE_NAME, t.name)
	err := t.socket.Ask(unix.NFNL_SUBSYS_NFTABLES, unix.NFT_MSG_GETTABLE, unix.NFPROTO_INET, false, name, func(_ uint16, body []byte) error {
		s.there = true
		return netfilter.Attributes(body[4:], func(ad *netlink.AttributeDecoder) {
			switch ad.Type() {
			case unix.NFTA_TABLE_FLAGS:
				s.flags = ad.Uint32()
			case attrTableOwner:
				s.owner = ad.Uint32()
			}
		})
	})
	switch {
	case errors.Is(err, unix.ENOENT):
		return state{}, nil
	case err != nil:
		return state{}, fmt.Errorf("read table %s: %w", t.name, meaning(err))
	case s.owner != 0 && s.owner != t.socket.Port() && s.owner < mostProcesses:
		return state{}, fmt.Errorf("%w, as process %d", ErrOwned, s.owner)
	case s.owner != 0 && s.owner != t.socket.Port():
		return state{}, ErrOwned
	}
	s.plain = s.flags&(tableOwner|tablePersist) == 0
	return s, nil
}

// read reads everything.
func (t *Table) read() (*image, error) {
	for attempt := 1; ; attempt++ {
		img, err := t.readOnce()
		if err == nil || attempt == readAttempts || !errors.Is(err, netfilter.ErrInterrupted) && !errors.Is(err, unix.EINTR) {
			return img, err
		}
	}
}

func (t *Table) readOnce() (*image, error) {
	img := &image{chains: map[string]*readChain{}, sets: map[ruleset.SetName]*readSet{}}
	var err error
	if img.state, err = t.table(); err != nil || !img.state.there {
		return img, err
	}
	dump := func(kind uint16, attrs []byte, each func(kind uint16, body []byte) error) error {
		return t.socket.Ask(unix.NFNL_SUBSYS_NFTABLES, kind, unix.NFPROTO_INET, true, attrs, each)
	}
	err = dump(unix.NFT_MSG_GETCHAIN, nil, func(_ uint16, body []byte) error {
		var table, name, kind string
		c := &readChain{}
		err := netfilter.Attributes(body[4:], func(ad *netlink.AttributeDecoder) {
			switch ad.Type() {
			case unix.NFTA_CHAIN_TABLE:
				table = ad.String()
			case unix.NFTA_CHAIN_NAME:
				name = ad.String()
			case unix.NFTA_CHAIN_TYPE:
				kind = ad.String()
			case unix.NFTA_CHAIN_HOOK:
				c.hook = &hook{}
				_ = netfilter.Attributes(ad.Bytes(), func(ad *netlink.AttributeDecoder) {
					switch ad.Type() {
					case unix.NFTA_HOOK_HOOKNUM:
						c.hook.number = ad.Uint32()
					case unix.NFTA_HOOK_PRIORITY:
						c.hook.priority = ad.Uint32()
					}
				})
			}
		})
		if c.hook != nil {
			c.hook.kind = kind
		}
		if table == t.name {
			img.chains[name] = c
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read chains: %w", err)
	}
	err = dump(unix.NFT_MSG_GETRULE, netfilter.Text(nil, unix.NFTA_RULE_TABLE, t.name), func(_ uint16, body []byte) error {
		chain, text, err := parseRule(body)
		if c := img.chains[chain]; c != nil {
			c.rules = append(c.rules, text)
		} else if err == nil {
			err = netfilter.ErrInterrupted
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read rules: %w", err)
	}
	err = dump(unix.NFT_MSG_GETSET, netfilter.Text(nil, unix.NFTA_SET_TABLE, t.name), func(_ uint16, body []byte) error {
		var name string
		s := &readSet{elements: map[element]bool{}}
		err := netfilter.Attributes(body[4:], func(ad *netlink.AttributeDecoder) {
			switch ad.Type() {
			case unix.NFTA_SET_NAME:
				name = ad.String()
			case unix.NFTA_SET_FLAGS:
				s.flags = ad.Uint32()
			case unix.NFTA_SET_KEY_TYPE:
				s.keyType = ad.Uint32()
			case unix.NFTA_SET_KEY_LEN:
				s.keySize = ad.Uint32()
			case unix.NFTA_SET_DATA_TYPE:
				s.dataType = ad.Uint32()
			case unix.NFTA_SET_DATA_LEN:
				s.dataSize = ad.Uint32()
			}
		})
		if s.dataType == verdictType {
			s.dataSize = 0 // that of a verdict in the kernel
		}
		img.sets[ruleset.SetName(name)] = s
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read sets: %w", err)
	}
	for name, s := range img.sets {
		if name.IsLearned() {
			continue
		}
		attrs := netfilter.Text(netfilter.Text(nil, unix.NFTA_SET_ELEM_LIST_TABLE, t.name), unix.NFTA_SET_ELEM_LIST_SET, string(name))
		if err := dump(unix.NFT_MSG_GETSETELEM, attrs, func(_ uint16, body []byte) error { return s.parse(body) }); err != nil {
			return nil, fmt.Errorf("read set %s: %w", name, err)
		}
	}
	return img, nil
}

// parse takes in a message with elements.
func (s *readSet) parse(body []byte) error {
	var inner error
	note := func(err error) {
		if err != nil {
			inner = err
		}
	}
	err := netfilter.Attributes(body[4:], func(ad *netlink.AttributeDecoder) {
		if ad.Type() != unix.NFTA_SET_ELEM_LIST_ELEMENTS {
			return
		}
		note(netfilter.Attributes(ad.Bytes(), func(ad *netlink.AttributeDecoder) {
			var e element
			note(netfilter.Attributes(ad.Bytes(), func(ad *netlink.AttributeDecoder) {
				switch ad.Type() {
				case unix.NFTA_SET_ELEM_KEY:
					note(netfilter.Attributes(ad.Bytes(), func(ad *netlink.AttributeDecoder) { e.key = string(ad.Bytes()) }))
				case unix.NFTA_SET_ELEM_DATA:
					note(netfilter.Attributes(ad.Bytes(), func(ad *netlink.AttributeDecoder) {
						if ad.Type() == unix.NFTA_DATA_VALUE {
							e.chain = string(ad.Bytes())
						}
						if ad.Type() != unix.NFTA_DATA_VERDICT {
							return
						}
						note(netfilter.Attributes(ad.Bytes(), func(ad *netlink.AttributeDecoder) {
							if ad.Type() == unix.NFTA_VERDICT_CHAIN {
								e.chain = ad.String()
							}
						}))
					}))
				case unix.NFTA_SET_ELEM_FLAGS:
					e.end = ad.Uint32()&unix.NFT_SET_ELEM_INTERVAL_END != 0
				}
			}))
			s.elements[e] = true
		}))
	})
	return errors.Join(err, inner)
}

// comparison is the difference of what the kernel holds and a program, and what there is that
// cannot be ours.
type comparison struct {
	ruleset.Change
	foreign []string
}

func (img *image) compare(want *ruleset.Program, l lacks) comparison {
	c := comparison{Change: ruleset.Change{Add: map[ruleset.SetName][]string{}, Remove: map[ruleset.SetName][]string{}, NewRanges: map[ruleset.SetName][]ruleset.Range{},
		Point: map[ruleset.SetName][]ruleset.Pointer{}, Unpoint: map[ruleset.SetName][]string{}}}
	for _, name := range slices.Sorted(maps.Keys(want.Chains)) {
		rules := want.Chains[name].Rules
		there := img.chains[name]
		same := there != nil && len(there.rules) == len(rules)
		for i := 0; same && i < len(rules); i++ {
			same = there.rules[i] == l.canonicalRule(name, &rules[i])
		}
		if !same {
			c.Chains = append(c.Chains, ruleset.ChainChange{Name: name, New: there == nil, Rules: rules})
		}
	}
	all := l.hooks()
	for _, name := range slices.Sorted(maps.Keys(img.chains)) {
		h, base := all[name]
		if there := img.chains[name].hook; base != (there != nil) || base && *there != h {
			c.foreign = append(c.foreign, "chain "+name)
		}
		if want.Chains[name] == nil && !(want.Leaves && ruleset.IsTarget(name)) {
			c.Gone = append(c.Gone, name)
		}
	}
	wanted := map[ruleset.SetName]map[string]bool{}
	for _, name := range ruleset.KeyedSets() {
		wanted[name] = map[string]bool{}
	}
	for k, part := range want.Parts.All() {
		for rest := range part.Keys.All() {
			whole := string(k.ID[:]) + rest
			wanted[k.Set][whole] = true
			if s := img.sets[k.Set]; s == nil || !s.elements[element{key: whole}] {
				c.Add[k.Set] = append(c.Add[k.Set], whole)
			}
		}
	}
	for name, ranges := range want.Ranges {
		s := img.sets[name]
		if s == nil {
			c.NewRanges[name] = ranges
			continue
		}
		elements := rangeElements(ranges)
		missing := slices.ContainsFunc(elements, func(e element) bool { return !s.elements[e] })
		if extra := len(s.elements) - len(elements); missing || extra > 0 {
			c.foreign = append(c.foreign, "set "+string(name))
		}
	}
	pointed := map[ruleset.SetName]*ruleset.Elements{}
	for name, s := range img.sets {
		if name.IsDispatch() {
			if _, there := want.Dispatch[name]; there && want.Leaves && name.IsOfServices() {
				pointed[name] = want.Dispatch[name]
				continue
			}
			elements := make(map[string]string, len(s.elements))
			for e := range s.elements {
				elements[e.key] = e.chain
			}
			pointed[name] = ruleset.NewLayered(elements)
		}
	}
	c.Dispatch(pointed, want.Dispatch)
	for _, name := range slices.Sorted(maps.Keys(img.sets)) {
		s := img.sets[name]
		if ours := describe(name); s.set != ours {
			c.foreign = append(c.foreign, "set "+string(name))
		}
		if keys, isKeyed := wanted[name]; isKeyed {
			for e := range s.elements {
				if !keys[e.key] {
					c.Remove[name] = append(c.Remove[name], e.key)
				}
			}
			slices.Sort(c.Remove[name])
			slices.Sort(c.Add[name])
		} else if _, needed := want.Ranges[name]; !needed && !name.IsDispatch() {
			c.GoneRanges = append(c.GoneRanges, name)
		}
	}
	slices.SortFunc(c.foreign, strings.Compare)
	return c
}
