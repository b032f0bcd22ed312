package watchstore

// agenda is what is due to one watcher, in the order of delivery. An object is in it at most once.
// The zero agenda is empty.
type agenda struct {
	// list are the duties; those before head have been taken.
	list []duty
	head int
	// places tells where an object stands in the list, counted from the place that the first had
	// when the agenda was empty last; shifted is how many have been cut off the list since. It is
	// nil while the agenda is short.
	places  map[*entry]int
	shifted int
}

// duty is what is due for one object.
type duty struct {
	entry *entry
	delivery
}

const (
	// shortAgenda is the number of duties up to which looking at all of them is faster than a map.
	shortAgenda = 8
	// largeAgenda is the number of duties for which an empty agenda keeps room.
	largeAgenda = 64
)

// len returns the number of objects for which something is due.
func (a *agenda) len() int { return len(a.list) - a.head }

// find returns what is due for an object, or nil. It is valid until the agenda changes.
func (a *agenda) find(e *entry) *delivery {
	if a.places != nil {
		if i, ok := a.places[e]; ok {
			return &a.list[i-a.shifted].delivery
		}
		return nil
	}
	for i := a.head; i < len(a.list); i++ {
		if a.list[i].entry == e {
			return &a.list[i].delivery
		}
	}
	return nil
}

// put adds what is due for an object that is not in the agenda, behind everything else.
func (a *agenda) put(e *entry, d delivery) {
	if a.head > largeAgenda && a.head > len(a.list)/2 {
		rest := copy(a.list, a.list[a.head:])
		clear(a.list[rest:])
		a.list, a.shifted, a.head = a.list[:rest], a.shifted+a.head, 0
	}
	a.list = append(a.list, duty{e, d})
	switch {
	case a.places != nil:
		a.places[e] = a.shifted + len(a.list) - 1
	case a.len() > shortAgenda:
		a.places = make(map[*entry]int, 2*shortAgenda)
		for i := a.head; i < len(a.list); i++ {
			a.places[a.list[i].entry] = a.shifted + i
		}
	}
}

// first returns the duty that comes next, or nil. It is valid until the agenda changes.
func (a *agenda) first() *duty {
	if a.len() == 0 {
		return nil
	}
	return &a.list[a.head]
}

// pop takes out what first returns.
func (a *agenda) pop() duty {
	d := a.list[a.head]
	a.list[a.head] = duty{}
	a.head++
	if a.head < len(a.list) {
		if a.places != nil {
			delete(a.places, d.entry)
		}
		return d
	}
	if cap(a.list) > largeAgenda {
		a.list = nil
	}
	*a = agenda{list: a.list[:0]}
	return d
}
