package userdata

import (
	_ "embed"
	"regexp"
	"strings"
	"sync"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/strictjson"
)

//go:embed vocabulary.yaml
var vocabularyFile []byte

// vocabulary is what programs on nodes know; vocabulary.yaml explains each list.
var vocabulary = sync.OnceValue(func() (table struct {
	Media, Packed, Runners, Shells, Labels, LabelPrefixes, Karpenter, Windows []string

	CloudConfig []string // patterns
	Begins      []struct{ With, Media string }
}) {
	strictjson.Ours("vocabulary.yaml", vocabularyFile, &table)
	return table
})

// cloudFields matches the keys of a cloud-config.
var cloudFields = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile("^(" + strings.Join(vocabulary().CloudConfig, "|") + ")$")
})
