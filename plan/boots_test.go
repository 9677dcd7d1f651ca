package plan

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
)

// nodeJournal is a journal of two boots with three messages, in systemd's compact form.
func nodeJournal(t *testing.T) []byte {
	return []byte(testkit.Expanded(t, "../internal/diagnose/testdata/node.journal.xz"))
}

// wide is a compact journal in the older form, with offsets of eight bytes.
func wide(journal []byte) []byte {
	little := binary.LittleEndian
	journal = bytes.Clone(journal)
	narrow := little.Uint64(journal[176:])
	little.PutUint64(journal[176:], uint64(len(journal)))
	little.PutUint32(journal[12:], little.Uint32(journal[12:])&^(1<<4))
	journal = append(journal, 6, 0, 0, 0, 0, 0, 0, 0, 48, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	for n := range uint64(3) {
		journal = little.AppendUint64(journal, uint64(little.Uint32(journal[narrow+24+n*4:])))
	}
	return journal
}

// The boots are those that journalctl lists.
func TestBootsAreThoseOfJournalctl(t *testing.T) {
	journal := nodeJournal(t)
	boots := func(content []byte) (string, []Boot) {
		h := hosttest.Root(t, map[string]string{
			"/var/log/journal/0123/system.journal": string(content), "/var/log/journal/0123/system@1.journal": "LPKSHHRH",
			"/var/log/journal/0123/user-1000.journal": "x",
		})
		return filepath.Join(h.Root(), "var/log/journal/0123/system.journal"), Boots(t.Context(), h)
	}
	file, found := boots(journal)
	out, err := exec.CommandContext(t.Context(), "journalctl", "--list-boots", "--output=json", "--file="+file).Output()
	require.NoError(t, err)
	var listed []struct {
		First int64 `json:"first_entry"`
		Last  int64 `json:"last_entry"`
	}
	require.NoError(t, json.Unmarshal(out, &listed))
	require.Len(t, listed, 2)
	var want []Boot
	for _, b := range listed {
		want = append(want, Boot{time.UnixMicro(b.First).UTC(), time.UnixMicro(b.Last).UTC()})
	}
	assert.Equal(t, want, found)
	_, found = boots(wide(journal))
	assert.Equal(t, want, found)
	assert.Empty(t, Boots(t.Context(), hosttest.Root(t, map[string]string{"/var/log/journal/": ""})))
}

// A damaged journal neither stops a report nor fills the memory.
func TestDamagedJournalsEnd(t *testing.T) {
	journal := nodeJournal(t)
	for seed := range uint64(500) {
		random := rand.New(rand.NewPCG(seed, 1)) // #nosec G404: the same damage each time
		damaged := bytes.Clone(journal[:1<<16])
		for range 1 + random.IntN(20) {
			damaged[random.IntN(300)] = byte(random.Uint32())
		}
		found := map[string]Boot{}
		readBoots(bytes.NewReader(damaged[:random.IntN(len(damaged))]), found)
		assert.LessOrEqual(t, len(found), bootsMost, "seed %d", seed)
	}
}
