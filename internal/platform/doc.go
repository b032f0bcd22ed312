// Package platform is the parent of the small technical packages that carry no domain words.
package platform
