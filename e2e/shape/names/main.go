// Command names prints the names of the shapes as a JSON list, for the weekly
// workflow: every shape is a job of its own.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/eksnode/packer-plugin-eksnode/e2e/shape"
)

func main() {
	if err := list(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "names:", err)
		os.Exit(1)
	}
}

func list(w io.Writer) error {
	return json.NewEncoder(w).Encode(slices.Sorted(maps.Keys(shape.All())))
}
