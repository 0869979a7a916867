package main

import (
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/embed"
)

type etcdOptions struct {
	dataDir, client, peer string
	fsync                 bool
}

func newEtcdCommand() *cobra.Command {
	var o etcdOptions
	cmd := &cobra.Command{
		Use:           "etcd",
		Short:         "One member of etcd, elected at once",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(*cobra.Command, []string) error { return runEtcd(o) },
	}
	cmd.Flags().StringVar(&o.dataDir, "data-dir", "etcd", "folder of the store")
	cmd.Flags().StringVar(&o.client, "listen-client-url", "http://127.0.0.1:2379", "address for clients")
	cmd.Flags().StringVar(&o.peer, "listen-peer-url", "http://127.0.0.1:2380", "address for peers (there are none)")
	cmd.Flags().BoolVar(&o.fsync, "fsync", false, "survive a power cut: wait for the disk at every write")
	return cmd
}

func (o etcdOptions) config() (*embed.Config, error) {
	client, err := url.Parse(o.client)
	if err != nil {
		return nil, err
	}
	peer, err := url.Parse(o.peer)
	if err != nil {
		return nil, err
	}
	c := embed.NewConfig()
	c.Name, c.Dir = name, o.dataDir
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{*client}, []url.URL{*client}
	c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{*peer}, []url.URL{*peer}
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	c.LogLevel = "warn"
	c.UnsafeNoFsync = !o.fsync
	c.TickMs, c.ElectionMs = 10, 100 // alone in its cluster: no reason to wait for other candidates
	c.SnapshotCount = 5000
	return c, nil
}

func runEtcd(o etcdOptions) error {
	c, err := o.config()
	if err != nil {
		return fmt.Errorf("etcd: %w", err)
	}
	e, err := embed.StartEtcd(c)
	if err != nil {
		return fmt.Errorf("etcd: start: %w", err)
	}
	defer e.Close()
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	select {
	case <-stop:
		return nil
	case err := <-e.Err():
		return fmt.Errorf("etcd: %w", err)
	}
}
