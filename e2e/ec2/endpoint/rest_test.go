package endpoint

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type restIn struct {
	Name string `json:"name"`
	Part string `json:"part"`
	Page string `json:"page"`
}

func TestRESTFindsTheActionByItsPath(t *testing.T) {
	e := New("AKIATEST", Service{
		Name: "eks", Protocol: REST{Routes: map[string]string{"GET /things/{name}": "Describe", "GET /things/{name}/parts/{part}": "DescribePart"}},
		Actions: map[string]Action{
			"Describe": Handle(func(_ context.Context, _ Call, in restIn) (restIn, error) {
				if in.Name == "none" {
					return in, &Failure{Code: "NotFound", Message: "no", Status: http.StatusNotFound}
				}
				return in, nil
			}),
			"DescribePart": Handle(func(_ context.Context, _ Call, in restIn) (restIn, error) { return in, nil }),
		},
	})
	server := httptest.NewServer(e)
	t.Cleanup(server.Close)
	for path, want := range map[string]string{
		"/things/a":                   `{"name":"a","part":"","page":""}`,
		"/things/a?page=2":            `{"name":"a","part":"","page":"2"}`,
		"/things/a/parts/arn%3Ab%2Fc": `{"name":"a","part":"arn:b/c","page":""}`,
		"/things/none":                `{"__type":"NotFound","message":"no"}`,
		"/things/a?loud=1":            `{"__type":"NotInTheDouble","message":"the double does not understand the parameters of Describe: json: unknown field \"loud\""}`,
		"/other/a":                    `{"__type":"NotInTheDouble","message":"the double does not understand GET /other/a of eks"}`,
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil)
		require.NoError(t, err)
		request.Header.Set("Authorization", signed("eks"))
		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		text := make([]byte, 1000)
		n, _ := response.Body.Read(text)
		require.NoError(t, response.Body.Close())
		assert.Equal(t, want, string(text[:n]), path)
	}
	assert.Len(t, e.Refusals(), 2)
}
