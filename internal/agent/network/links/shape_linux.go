package links

import (
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/nephele-io/nephele/internal/agent/network"
)

// Shape makes what passes by links to Pods, by their names, be as it is wanted; by all others of
// our making as much as comes. What is there already stays. It does all that it can, and returns
// how many links it has changed.
func (k *Kernel) Shape(want map[string]network.Shape) (changed int, err error) {
	list, err := k.handle.LinkList()
	if err != nil {
		return 0, fmt.Errorf("read links: %w", err)
	}
	brakes := map[string]netlink.Link{}
	for _, l := range list {
		if l.Type() == "ifb" && network.IsBrake(l.Attrs().Name) {
			brakes[l.Attrs().Name] = l
		}
	}
	var errs []error
	note := func(name string, did bool, err error) {
		if did {
			changed++
		}
		if err != nil && !gone(err) && len(errs) < mostErrors {
			errs = append(errs, fmt.Errorf("bandwidth of link %s: %w", name, err))
		}
	}
	ours, err := k.shaped()
	if err != nil {
		return 0, err
	}
	for _, l := range list {
		a := l.Attrs()
		if _, _, is := network.ParseAlias(a.Alias); !is || l.Type() != "veth" || !strings.HasPrefix(a.Name, network.EndPrefix) {
			continue
		}
		shape, name := want[a.Name], network.BrakeName(a.Name)
		did, err := k.slow(l, ours[a.Index], shape.Ingress)
		note(a.Name, did, err)
		if shape.Egress == 0 {
			continue // the brake goes below
		}
		brake := brakes[name]
		delete(brakes, name)
		did, err = k.brake(l, brake, name, ours, shape.Egress)
		note(a.Name, did, err)
	}
	for name, l := range brakes { // no Pod wants them any more
		if end, err := k.handle.LinkByName(network.EndPrefix + strings.TrimPrefix(name, network.BrakeName(network.EndPrefix))); err == nil {
			if err := k.handle.QdiscDel(ingressOf(end)); err != nil && !errors.Is(err, unix.EINVAL) && !gone(err) {
				note(name, false, err)
				continue // what is sent there would be lost
			}
		}
		note(name, true, k.handle.LinkDel(l))
	}
	return changed, errors.Join(errs...)
}

// shaped are the disciplines by which links are slowed down, by the indices of the links.
func (k *Kernel) shaped() (map[int]*netlink.Tbf, error) {
	list, err := k.handle.QdiscList(nil)
	if err != nil {
		return nil, fmt.Errorf("read disciplines of links: %w", err)
	}
	out := map[int]*netlink.Tbf{}
	for _, q := range list {
		if tbf, is := q.(*netlink.Tbf); is && tbf.Parent == netlink.HANDLE_ROOT {
			out[tbf.LinkIndex] = tbf
		}
	}
	return out, nil
}

// slow keeps a rate on what leaves by a link; 0 for none.
func (k *Kernel) slow(l netlink.Link, is *netlink.Tbf, rate network.Rate) (changed bool, err error) {
	if rate == 0 {
		if is == nil {
			return false, nil
		}
		return true, k.handle.QdiscDel(is)
	}
	bytes, burst, limit := rate.Bucket()
	if is != nil && is.Rate == bytes && is.Limit == limit {
		return false, nil
	}
	return true, k.handle.QdiscReplace(&netlink.Tbf{
		QdiscAttrs: netlink.QdiscAttrs{LinkIndex: l.Attrs().Index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT},
		Rate:       bytes, Limit: limit, Buffer: netlink.Xmittime(bytes, burst),
	})
}

func ingressOf(l netlink.Link) *netlink.Ingress {
	return &netlink.Ingress{QdiscAttrs: netlink.QdiscAttrs{LinkIndex: l.Attrs().Index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_INGRESS}}
}

// brake keeps a rate on what comes by a link: it goes by another one, which slows it down, first.
func (k *Kernel) brake(l, brake netlink.Link, name string, ours map[int]*netlink.Tbf, rate network.Rate) (changed bool, err error) {
	if brake == nil {
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.MTU = name, l.Attrs().MTU
		if err := k.handle.LinkAdd(&netlink.Ifb{LinkAttrs: attrs}); err != nil && !errors.Is(err, unix.EEXIST) {
			return false, err
		}
		if brake, err = k.handle.LinkByName(name); err != nil {
			return true, err
		}
		changed = true
	}
	if brake.Attrs().Flags&net.FlagUp == 0 {
		if err := k.handle.LinkSetUp(brake); err != nil {
			return true, err
		}
		changed = true
	}
	did, err := k.slow(brake, ours[brake.Attrs().Index], rate)
	if err != nil {
		return true, err
	}
	leads, err := k.leads(l, brake)
	if err != nil || leads {
		return changed || did, err
	}
	if err := k.handle.QdiscAdd(ingressOf(l)); err != nil && !errors.Is(err, unix.EEXIST) {
		return true, err
	}
	all := netlink.FilterAttrs{LinkIndex: l.Attrs().Index, Parent: netlink.MakeHandle(0xffff, 0), Handle: netlink.MakeHandle(0x8000, 0x800), Priority: 1, Protocol: unix.ETH_P_ALL}
	return true, k.handle.FilterReplace(&netlink.U32{FilterAttrs: all, Actions: []netlink.Action{netlink.NewMirredAction(brake.Attrs().Index)}})
}

// leads reports whether what comes by a link goes by a brake.
func (k *Kernel) leads(l, brake netlink.Link) (bool, error) {
	list, err := k.handle.FilterList(l, netlink.MakeHandle(0xffff, 0))
	if err != nil {
		if errors.Is(err, unix.EINVAL) || gone(err) { // there is no discipline
			return false, nil
		}
		return false, err
	}
	for _, f := range list {
		u, is := f.(*netlink.U32)
		if !is {
			continue
		}
		for _, a := range u.Actions {
			if m, is := a.(*netlink.MirredAction); is && m.Ifindex == brake.Attrs().Index {
				return true, nil
			}
		}
	}
	return false, nil
}
