package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRunRefusesInvalidArguments(t *testing.T) {
	for _, test := range []struct {
		name, wantErr string
		arguments     []string
	}{
		{"nothing", "no tool named", nil},
		{"an unknown tool", `finding "helm": unknown tool; must be one of packer, `, []string{"helm@3"}},
		{"an unknown version", "finding kubelet 1.2.3: unknown version; must be one of 1.36.3, 1.37.2, 1.35.4, 1.34.4, 1.33.13, 1.32.13", []string{"kubelet@1.2.3"}},
		{"an unknown architecture", `building kubelet 1.36.3: unknown architecture "mips"; must be amd64 or arm64`, []string{"-arch", "mips", "kubelet"}},
		{"an unknown flag", "flag provided but not defined: -quick", []string{"-quick"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out, log strings.Builder
			require.ErrorContains(t, run(t.Context(), test.arguments, &out, &log), test.wantErr)
			assert.Empty(t, out.String())
		})
	}
}
