package wire

import (
	"bytes"
	"encoding/xml"
	"net/netip"
	"strconv"
	"time"
)

// Element is one XML element with either text or children. Elements are plain values; a builder
// that has nothing to say returns the zero Element, which is not written.
type Element struct {
	Name     string
	Attr     string // value of the xmlns attribute, if any
	Text     string
	Children []Element
}

// Text returns an element with this text, or nothing when the text is empty.
func Text(name, text string) Element {
	if text == "" {
		return Element{}
	}
	return Element{Name: name, Text: text}
}

// Bool returns an element that says true or false.
func Bool(name string, v bool) Element {
	return Element{Name: name, Text: strconv.FormatBool(v)}
}

// Int returns an element with a decimal number.
func Int(name string, v int) Element {
	return Element{Name: name, Text: strconv.Itoa(v)}
}

// Time returns an element with a time stamp in UTC with milliseconds, or nothing for the zero time.
func Time(name string, t time.Time) Element {
	if t.IsZero() {
		return Element{}
	}
	return Element{Name: name, Text: t.UTC().Format("2006-01-02T15:04:05.000Z")}
}

// Addr returns an element with an IP address, or nothing for the zero address.
func Addr(name string, a netip.Addr) Element {
	if !a.IsValid() {
		return Element{}
	}
	return Element{Name: name, Text: a.String()}
}

// Node returns an element with children; it is written even when it has none.
func Node(name string, children ...Element) Element {
	return Element{Name: name, Children: children}
}

// List returns a list element with one item per value. An empty list is an empty element: clients
// tell that from an absent one.
func List[T any](name string, values []T, item func(T) []Element) Element {
	list := Element{Name: name}
	for _, v := range values {
		list.Children = append(list.Children, Element{Name: "item", Children: item(v)})
	}
	return list
}

// Marshal writes root as a document with the XML declaration.
func Marshal(root Element) []byte {
	var b bytes.Buffer
	b.WriteString(`<?xml version="1.0" encoding="UTF-8"?>` + "\n")
	write(&b, root)
	return b.Bytes()
}

func write(b *bytes.Buffer, e Element) {
	if e.Name == "" {
		return
	}
	b.WriteString("<" + e.Name)
	if e.Attr != "" {
		b.WriteString(` xmlns="`)
		escapeInto(b, e.Attr)
		b.WriteString(`"`)
	}
	if e.Text == "" && len(e.Children) == 0 {
		b.WriteString("/>")
		return
	}
	b.WriteString(">")
	escapeInto(b, e.Text)
	for _, c := range e.Children {
		write(b, c)
	}
	b.WriteString("</" + e.Name + ">")
}

func escapeInto(b *bytes.Buffer, text string) {
	// A bytes.Buffer never fails to write, and EscapeText has no other error.
	_ = xml.EscapeText(b, []byte(text))
}
