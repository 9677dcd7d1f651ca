package shape

import (
	"os"
	"testing"
)

func TestTry(t *testing.T) {
	for _, s := range []Shape{Arch(), AmazonLinux2023()} {
		if s.ID == os.Getenv("SHAPE") {
			root, repo, err := s.Prepare(t.Context(), t.Output())
			t.Log(root, repo, err)
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}
