package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// format is the flag --output: one of the formats that a command can print. The
// first format is the default.
type format struct {
	to    *string
	known []string
}

// formatFlag adds --output.
func formatFlag(cmd *cobra.Command, to *string, known ...string) {
	*to = known[0]
	last := len(known) - 1
	cmd.Flags().Var(format{to, known}, "output", "output format: "+strings.Join(known[:last], ", ")+" or "+known[last])
}

// Type implements pflag.Value.
func (format) Type() string { return "string" }

func (f format) String() string {
	if f.to == nil { // pflag calls String on the zero value
		return ""
	}
	return *f.to
}

// Set implements pflag.Value. It refuses unknown formats.
func (f format) Set(value string) error {
	if !slices.Contains(f.known, value) {
		return fmt.Errorf("%q is not known; known: %s", value, strings.Join(slices.Sorted(slices.Values(f.known)), ", "))
	}
	*f.to = value
	return nil
}

// writeJSON prints a value as JSON that is safe on a terminal.
func writeJSON(w io.Writer, v any) error {
	text, err := plan.EncodeJSON(v)
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}
