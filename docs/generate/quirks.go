package main

import (
	"slices"

	"github.com/eksnode/packer-plugin-eksnode/distros"
)

// quirks are the peculiarities of all distributions, each once.
func quirks() []distros.Quirk {
	var list []distros.Quirk
	for _, d := range distros.All() {
		for _, q := range d.Quirks {
			if !slices.ContainsFunc(list, func(have distros.Quirk) bool { return have.Name == q.Name }) {
				list = append(list, q)
			}
		}
	}
	return list
}
