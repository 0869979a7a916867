package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/podway/podway/internal/lab"
)

func newImage() *cobra.Command {
	c := &cobra.Command{
		Use:   "image",
		Short: "Images in the cluster of `podway up`",
		Args:  cobra.NoArgs,
	}
	c.AddCommand(asRoot(newImageLoad()))
	return c
}

func newImageLoad() *cobra.Command {
	c := &cobra.Command{
		Use:   "load FILE | --binary PATH --name NAME",
		Short: "Bring an image into every node",
		Long: `Brings an image into every node, now and at each later start: from an archive (docker save, or an OCI layout in a tar),
or made of one static program and nothing else. Pods use it with imagePullPolicy IfNotPresent or Never, by a tag other
than latest.`,
		Example: `  docker save web:1 -o web.tar && podway image load web.tar
  podway image load --binary ./web --name podway.local/web:dev`,
		Args: cobra.MaximumNArgs(1),
	}
	dir := dirFlag(c)
	binary := c.Flags().String("binary", "", "a static program to make an image of")
	name := c.Flags().String("name", "", "the name of that image, HOST/NAME:TAG")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		names := []string{*name}
		var err error
		switch {
		case len(args) == 1 && *binary == "" && *name == "":
			names, err = lab.LoadImage(cmd.Context(), labDir(*dir), args[0])
		case len(args) == 0 && *binary != "" && *name != "":
			err = lab.LoadBinary(cmd.Context(), labDir(*dir), *binary, *name)
		default:
			return usage("want a file, or --binary and --name")
		}
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "loaded %s into every node\n", strings.Join(names, ", "))
		return err
	}
	return c
}
