package embedded

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAgentIsTakenByArchitecture(t *testing.T) {
	files := fstest.MapFS{
		"agents/README.md":              {Data: []byte("read me")},
		"agents/eksnode-linux-amd64.gz": {Data: []byte("for amd64")},
	}
	data, err := agentIn(files, "amd64")
	require.NoError(t, err)
	assert.Equal(t, "for amd64", string(data))

	_, err = agentIn(files, "arm64")
	require.EqualError(t, err, "this plugin was built without its agent for linux/arm64; build it with `make build`")
}

// The folder must be there in a fresh clone, or the plugin does not compile.
func TestFolderIsCommitted(t *testing.T) {
	data, err := folder.ReadFile("agents/README.md")
	require.NoError(t, err)
	assert.NotEmpty(t, data)
}
