package shape

import (
	"os"
	"testing"
)

func TestTry(t *testing.T) {
	for name, s := range All() {
		if name == os.Getenv("SHAPE") {
			root, repo, err := s.Prepare(t.Context(), t.Output())
			t.Log(root, repo, err)
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}
